# `cmake --install` and find_package(sparseconv): headers under include/sparseconv, static libraries, the command line.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY SPARSECONV_LIBRARIES)
set(installed ${libraries})
foreach(dependency sparseconv_hdf5 sparseconv_laszip sparseconv_e57)
  if(TARGET ${dependency})
    list(APPEND installed ${dependency})
  endif()
endforeach()
install(TARGETS ${installed} EXPORT sparseconv_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(SPARSECONV_APPS)
  install(TARGETS sparseconv_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(folder gemm_core io sparseconv)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sparseconv
          FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h" PATTERN "*.cuh")
endforeach()
install(EXPORT sparseconv_targets NAMESPACE sparseconv:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sparseconv
        FILE sparseconvTargets.cmake)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sparseconvConfig.cmake.in
  ${PROJECT_BINARY_DIR}/sparseconvConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sparseconv)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sparseconvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sparseconvConfig.cmake ${PROJECT_BINARY_DIR}/sparseconvConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sparseconv)
