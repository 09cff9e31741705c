// BASE_HD marks functions that device code calls too; empty outside nvcc, so no CUDA header is needed.
#pragma once

#if defined(__CUDACC__)
#define BASE_HD __host__ __device__
#else
#define BASE_HD
#endif
