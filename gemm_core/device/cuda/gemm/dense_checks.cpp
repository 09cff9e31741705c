#include "gemm_core/device/cuda/gemm/dense_checks.hpp"

#include <cuda_runtime_api.h>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/gemm/dense_instances.hpp"
#include "gemm_core/device/gemm_checks.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;
using Code = GemmStatus::Code;
constexpr std::size_t kMaxNodes = 8;  // DenseEpilogue::kMaxNodes

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("gemm on CUDA: ", parts...)};
}

GemmStatus check_features(const GemmArguments& g) {
  const auto has_lists = [](const auto& o) { return o.rows.indices || o.columns.indices; };
  if (has_lists(g.a) || has_lists(g.b) || has_lists(g.c) || has_lists(g.d))
    return refuse(Code::unsupported, "gather lists are not supported");
  if (g.a.metadata || g.b.metadata || g.c.metadata)
    return refuse(Code::unsupported, "structured sparse A is not supported");
  if (g.visitor) return refuse(Code::unsupported, "visitors are not supported");
  return {};
}

}  // namespace

GemmStatus check_device() {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device);
      error != cudaSuccess || base::cuda::device_count() == 0) {
    (void)cudaGetLastError();
    return refuse(Code::wrong_device, "no CUDA device: ", cudaGetErrorString(error));
  }
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, any_dense_kernel()) != cudaSuccess) {
    (void)cudaGetLastError();
    const base::cuda::DeviceInfo& info = base::cuda::device_info(device);
    return refuse(Code::wrong_device, "built for ", GEMM_CORE_CUDA_ARCHITECTURES, "; cuda:", device,
                  " is sm_", info.major, info.minor);
  }
  return {};
}

GemmStatus check_pointer(const char* operand, const void* pointer, int device) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    (void)cudaGetLastError();
    return refuse(Code::wrong_device, operand, " is no pointer that CUDA knows");
  }
  if (attributes.type == cudaMemoryTypeManaged) return {};
  if (attributes.type != cudaMemoryTypeDevice) {
    return refuse(Code::wrong_device, operand,
                  " points to host memory, expected memory of cuda:", device);
  }
  if (attributes.device != device) {
    return refuse(Code::wrong_device, operand, " is on cuda:", attributes.device,
                  ", expected the current device cuda:", device);
  }
  return {};
}

namespace {

template <class Operand>
GemmStatus check_memory(const char* operand, const Operand& o, std::int64_t batch, int device) {
  if (o.pointers == nullptr) return check_pointer(operand, o.data, device);
  for (std::int64_t l = 0; l < batch; ++l) {
    if (auto s = check_pointer(operand, o.pointers[l], device); !s.ok()) {
      s.message += base::concat(" (batch ", l, ")");
      return s;
    }
  }
  return {};
}

}  // namespace

GemmStatus check_nodes(const GemmArguments& g, int device) {
  if (g.epilogue.nodes.size() > kMaxNodes) {
    return refuse(Code::unsupported, g.epilogue.nodes.size(), " epilogue nodes, at most ",
                  int{kMaxNodes}, " are possible");
  }
  for (std::size_t i = 0; i < g.epilogue.nodes.size(); ++i) {
    const EpilogueNode& node = g.epilogue.nodes[i];
    const std::string name = base::concat("epilogue node ", i);
    if (node.kind == EpilogueNode::Kind::scale_shift) {
      for (const float* vector : {node.scale, node.shift}) {
        if (vector == nullptr) continue;
        if (auto s = check_pointer(name.c_str(), vector, device); !s.ok()) return s;
      }
    } else if (node.kind == EpilogueNode::Kind::add) {
      const auto& aux = node.aux;
      if (aux.shape.rank() != 2 || aux.shape[0] != g.m || aux.shape[1] != g.n) {
        return refuse(Code::unsupported, name, " (add) has shape ", base::to_string(aux.shape),
                      ", result is [", g.m, ", ", g.n, "]");
      }
      if (!is_narrow_float(aux.dtype)) {
        return refuse(Code::unsupported, name, " (add) has element type ", base::name(aux.dtype));
      }
      if (aux.stride.rank() != 2 || (g.n > 1 && aux.stride[1] != 1)) {
        return refuse(Code::unsupported, name, " (add) needs unit stride along n");
      }
      if (auto s = check_pointer(name.c_str(), aux.data, device); !s.ok()) return s;
    }
  }
  return {};
}

GemmStatus check_dense(const GemmArguments& g) {
  if (auto s = check_features(g); !s.ok()) return s;
  GemmArguments plain = g;  // whose nodes are in device memory
  plain.epilogue.nodes.clear();
  if (auto s = check_gemm(plain); !s.ok()) return s;
  if (g.compute == DType::f64 || g.d.dtype == DType::i32) {
    if (!g.epilogue.nodes.empty()) {
      return refuse(Code::unsupported, "epilogue nodes on ", base::name(g.d.dtype),
                    " results are not supported");
    }
  }
  if (auto s = check_device(); !s.ok()) return s;
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  if (g.k > 0) {
    if (auto s = check_memory("operand A", g.a, g.batch, device); !s.ok()) return s;
    if (auto s = check_memory("operand B", g.b, g.batch, device); !s.ok()) return s;
    const struct {
      const char* name;
      const GroupedValues& values;
    } grouped[] = {{"scale of operand A", g.a.scale},
                   {"zero point of operand A", g.a.zero},
                   {"scale of operand B", g.b.scale},
                   {"zero point of operand B", g.b.zero}};
    for (const auto& [name, values] : grouped) {
      if (values.data == nullptr) continue;
      if (auto s = check_pointer(name, values.data, device); !s.ok()) return s;
    }
  }
  if (g.beta != 0 || g.beta_imag != 0) {
    if (auto s = check_memory("operand C", g.c, g.batch, device); !s.ok()) return s;
  }
  if (auto s = check_memory("operand D", g.d, g.batch, device); !s.ok()) return s;
  return check_nodes(g, device);
}

}  // namespace gemm_core::cuda
