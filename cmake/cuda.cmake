# The CUDA backend: nvcc >= 12.4. Kernels with Hopper's own instructions are compiled for sm_90a; those of dense operations that
# need none of them also for SPARSECONV_CUDA_PORTABLE_ARCHITECTURES ("80" for Ampere and, as PTX, everything newer).
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "SPARSECONV_CUDA is ON, but there is no nvcc. Set CUDACXX or put nvcc (12.4 or newer) on the path.")
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
  message(FATAL_ERROR "SPARSECONV_CUDA needs nvcc 12.4 or newer; ${CMAKE_CUDA_COMPILER} is ${CMAKE_CUDA_COMPILER_VERSION}")
endif()
find_package(CUDAToolkit 12.4 REQUIRED)
# CMake 3.25 does not know that nvcc has C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
message(STATUS "CUDA backend: nvcc ${CMAKE_CUDA_COMPILER_VERSION}")

# sparseconv_cuda_library(name sources...): a static library whose kernels use Hopper's own instructions.
function(sparseconv_cuda_library target)
  sparseconv_library(${target} ${ARGN})
  sparseconv_cuda_settings(${target})
endfunction()

# sparseconv_cuda_settings(target [more architectures...])
function(sparseconv_cuda_settings target)
  set(architectures ${ARGN} ${SPARSECONV_CUDA_ARCHITECTURES})
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${architectures}" CUDA_RUNTIME_LIBRARY Static)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter
      $<$<BOOL:${SPARSECONV_WERROR}>:-Werror=all-warnings>>)
  target_link_libraries(${target} PUBLIC CUDA::cudart_static)
endfunction()
set(SPARSECONV_CUDA_ARCHITECTURES "90a-real" CACHE STRING "Architectures of the CUDA kernels")
set(SPARSECONV_CUDA_PORTABLE_ARCHITECTURES "" CACHE STRING
  "More architectures for the kernels that need no Hopper: a list from 80 on, e.g. 80 or 80;89")
