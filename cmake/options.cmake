# Options, compiler warnings and the compiler cache. Included once, from the top.
option(SPARSECONV_CUDA "Build the CUDA backend (nvcc >= 12.4)" OFF)
option(SPARSECONV_PCL "Interoperate with pcl::PointCloud where PCL is found" ON)
option(SPARSECONV_HDF5 "Read and write HDF5 (models, voxel files, results)" ON)
option(SPARSECONV_APPS "Build the command line and the examples" ON)
option(SPARSECONV_TESTS "Build the tests" ON)
option(SPARSECONV_BENCHMARKS "Build the benchmark programs beside the command line's bench" OFF)
option(SPARSECONV_FUZZ "Build the fuzz targets (Clang)" OFF)
if(DEFINED ENV{CI})
  set(warnings_are_errors ON)
else()
  set(warnings_are_errors OFF)
endif()
option(SPARSECONV_WERROR "Treat warnings as errors (default ON where the variable CI is set)" ${warnings_are_errors})
set(SPARSECONV_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Relative paths in the cache key, so that a clean clone elsewhere hits too.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

if(SPARSECONV_SANITIZE)
  add_compile_options(-fsanitize=${SPARSECONV_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${SPARSECONV_SANITIZE})
endif()

if(SPARSECONV_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # the libraries report their coverage, too
endif()

# Adds a library target `name` with alias sparseconv::name, our warnings and include root.
function(sparseconv_library target)
  add_library(${target} STATIC ${ARGN})
  add_library(sparseconv::${target} ALIAS ${target})
  if(NOT target STREQUAL sparseconv)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME sparseconv_${target})
  endif()
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/sparseconv>)
  sparseconv_warnings(${target})
  set_property(GLOBAL APPEND PROPERTY SPARSECONV_LIBRARIES ${target})
endfunction()

function(sparseconv_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
      $<$<CXX_COMPILER_ID:GNU>:-Wno-missing-field-initializers> $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-field-initializers>
      $<$<BOOL:${SPARSECONV_WERROR}>:-Werror>>)
endfunction()
