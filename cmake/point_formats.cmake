# LASzip (3.0 or newer) and libE57Format (2 or 3), where they are found: targets sparseconv_laszip and sparseconv_e57.
# Without them LAZ and E57 files are refused by name.
option(SPARSECONV_LASZIP "Read LAZ where LASzip is found" ON)
option(SPARSECONV_E57 "Read E57 where libE57Format is found" ON)
include(CheckCXXSourceCompiles)

if(SPARSECONV_LASZIP)
  find_path(SPARSECONV_LASZIP_INCLUDE_DIR laszip/laszip_api.h)
  find_library(SPARSECONV_LASZIP_LIBRARY NAMES laszip laszip3)
  mark_as_advanced(SPARSECONV_LASZIP_INCLUDE_DIR SPARSECONV_LASZIP_LIBRARY)
  if(SPARSECONV_LASZIP_INCLUDE_DIR AND SPARSECONV_LASZIP_LIBRARY)
    # Version 2 has another interface, 3.0 was the first with streams; 3.5 includes a header of its own folder.
    set(laszip_includes ${SPARSECONV_LASZIP_INCLUDE_DIR} ${SPARSECONV_LASZIP_INCLUDE_DIR}/laszip)
    set(CMAKE_REQUIRED_INCLUDES ${laszip_includes})
    set(CMAKE_REQUIRED_LIBRARIES ${SPARSECONV_LASZIP_LIBRARY})
    check_cxx_source_compiles("
      #include <laszip/laszip_api.h>
      #include <sstream>
      int main() {
        laszip_POINTER handle;
        std::istringstream stream;
        laszip_BOOL compressed;
        return laszip_create(&handle) + laszip_open_reader_stream(handle, stream, &compressed);
      }" SPARSECONV_LASZIP_HAS_STREAMS)
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_LIBRARIES)
    if(SPARSECONV_LASZIP_HAS_STREAMS)
      add_library(sparseconv_laszip INTERFACE)
      target_include_directories(sparseconv_laszip SYSTEM INTERFACE ${laszip_includes})
      target_link_libraries(sparseconv_laszip INTERFACE ${SPARSECONV_LASZIP_LIBRARY})
    else()
      message(STATUS "LASzip in ${SPARSECONV_LASZIP_INCLUDE_DIR} is older than 3.0 or does not link: LAZ is not read")
    endif()
  endif()
endif()

if(SPARSECONV_E57)
  find_path(SPARSECONV_E57_INCLUDE_DIR E57Format.h PATH_SUFFIXES E57Format e57format)
  find_library(SPARSECONV_E57_LIBRARY NAMES E57Format e57format)
  mark_as_advanced(SPARSECONV_E57_INCLUDE_DIR SPARSECONV_E57_LIBRARY)
  if(SPARSECONV_E57_INCLUDE_DIR AND SPARSECONV_E57_LIBRARY)
    find_package(XercesC QUIET)  # a static libE57Format needs it
    set(e57_libraries ${SPARSECONV_E57_LIBRARY})
    if(TARGET XercesC::XercesC)
      list(APPEND e57_libraries XercesC::XercesC)
    endif()
    foreach(version 3 2)
      set(type TypeFloat)
      if(version EQUAL 2)
        set(type E57_FLOAT)
      endif()
      set(CMAKE_REQUIRED_INCLUDES ${SPARSECONV_E57_INCLUDE_DIR})
      set(CMAKE_REQUIRED_LIBRARIES ${e57_libraries})
      check_cxx_source_compiles("
        #include <iostream>
        #include <E57Format.h>
        int main() { return e57::ImageFile(\"a\", \"r\").root().get(\"b\").type() == e57::${type}; }"
        SPARSECONV_E57_IS_${version})
      unset(CMAKE_REQUIRED_INCLUDES)
      unset(CMAKE_REQUIRED_LIBRARIES)
      if(SPARSECONV_E57_IS_${version})
        add_library(sparseconv_e57 INTERFACE)
        target_include_directories(sparseconv_e57 SYSTEM INTERFACE ${SPARSECONV_E57_INCLUDE_DIR})
        target_link_libraries(sparseconv_e57 INTERFACE ${e57_libraries})
        if(TARGET XercesC::XercesC)
          set(SPARSECONV_E57_NEEDS_XERCES ON)  # for installed packages
        endif()
        if(version EQUAL 2)
          target_compile_definitions(sparseconv_e57 INTERFACE SPARSECONV_E57_2)
        endif()
        break()
      endif()
    endforeach()
    if(NOT TARGET sparseconv_e57)
      message(STATUS "libE57Format in ${SPARSECONV_E57_INCLUDE_DIR} does not link: E57 is not read")
    endif()
  endif()
endif()
