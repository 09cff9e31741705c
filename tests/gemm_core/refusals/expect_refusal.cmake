# Compiles refusals.cpp with -DREFUSAL=CASE: must fail with MESSAGE, or succeed where MESSAGE is empty.
cmake_minimum_required(VERSION 3.25)
execute_process(
  COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${ROOT} -DREFUSAL=${CASE} ${CMAKE_CURRENT_LIST_DIR}/refusals.cpp
  RESULT_VARIABLE status ERROR_VARIABLE errors)
if(MESSAGE STREQUAL "")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "the control case does not compile:\n${errors}")
  endif()
  return()
endif()
if(status EQUAL 0)
  message(FATAL_ERROR "case ${CASE} compiles, must be refused with: ${MESSAGE}")
endif()
string(FIND "${errors}" "${MESSAGE}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "case ${CASE} is refused without naming \"${MESSAGE}\":\n${errors}")
endif()
