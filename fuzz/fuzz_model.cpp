// Models of arbitrary bytes: a validated model or base::Error, never anything else. Bytes that
// begin with '{' are the graph's JSON, which a mutated HDF5 file seldom reaches; all others are the
// whole file.
#include "fuzz/named_input.hpp"
#include "gemm_core/base/error.hpp"
#include "sparseconv/model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const char> bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (!bytes.empty() && bytes.front() == '{') {
      sparseconv::Model model = sparseconv::parse_model_graph({bytes.data(), bytes.size()});
      static_cast<void>(sparseconv::validate(model));
      static_cast<void>(sparseconv::model_graph_json(model));
    } else {
      static_cast<void>(sparseconv::load_model(named_input(bytes)));
    }
  } catch (const base::Error&) {
  }
  return 0;
}
