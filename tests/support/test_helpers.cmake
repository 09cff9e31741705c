include(GoogleTest)
# Seconds that one ctest test may take. Sanitizers slow most code four to fifteen times.
set(SPARSECONV_TEST_TIMEOUT 600)
if(SPARSECONV_SANITIZE)
  set(SPARSECONV_TEST_TIMEOUT 6000)
endif()
# sparseconv_test(name LABEL unit SOURCES a.cpp b.cpp LIBRARIES x y): a GoogleTest executable whose tests are found at
# build time. Shared case files are read when a test runs, from $SPARSECONV_SHARED, else ../shared beside the source tree.
function(sparseconv_test target)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE SPARSECONV_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    SPARSECONV_LOCALES="${PROJECT_BINARY_DIR}/locales")
  sparseconv_warnings(${target})
  # Tests are compiled once and run once: light optimisation halves the build and keeps the oracles quick enough.
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${SPARSECONV_TEST_TIMEOUT})
endfunction()
