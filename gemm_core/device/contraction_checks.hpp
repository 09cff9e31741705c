// What a contraction refuses, before anything is launched or written.
#pragma once
#include "gemm_core/device/contraction.hpp"

namespace gemm_core {

// Everything; reads the index buffers of `arguments`. `placed` are the same arguments, with index
// buffers where the operation reads them: no copies.
GemmStatus check_contraction(const ContractionArguments& arguments,
                             const ContractionArguments& placed);
// Modes and the addresses of index buffers alone, which may be in any memory: extents, strides of
// modes, how far buffers are read, their element types and alignment.
GemmStatus check_contraction_buffers(const ContractionArguments& arguments);

}  // namespace gemm_core
