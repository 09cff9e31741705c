# Every public header compiles as the only include of a translation unit.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE headers RELATIVE "${ROOT}" "${ROOT}/gemm_core/*.hpp" "${ROOT}/io/*.hpp" "${ROOT}/io/*.h"
     "${ROOT}/sparseconv/*.hpp" "${ROOT}/sparseconv/*.h")
list(FILTER headers EXCLUDE REGEX "/cuda/|io/pcl\\.hpp|io/hdf5_(file|handle|types)\\.hpp|-inl\\.hpp|_inl\\.hpp")
list(LENGTH headers count)
if(count LESS 20)
  message(FATAL_ERROR "only ${count} headers found under ${ROOT}: the test looks in the wrong place")
endif()
# One compiler call a header, eight headers a call of the shell would hide which one fails; syntax only keeps it quick.
foreach(header IN LISTS headers)
  file(WRITE "${BINARY}/alone.cpp" "#include \"${header}\"\n#include \"${header}\"\n")
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${ROOT} -isystem /usr/include/eigen3 "${BINARY}/alone.cpp"
                  RESULT_VARIABLE status ERROR_VARIABLE message)
  if(NOT status EQUAL 0)
    message(SEND_ERROR "${header} does not compile alone:\n${message}")
  endif()
endforeach()
message(STATUS "${count} headers compile alone")
