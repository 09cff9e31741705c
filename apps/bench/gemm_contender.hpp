// One configuration of a task of `bench gemm` on the CPU, ready to run on each workspace in turn.
#pragma once
#include <vector>

#include "apps/bench/gemm_sweep.hpp"

namespace apps {

class GemmContender {
 public:
  // base::Error with the operation's own message where it refuses.
  GemmContender(const gemm_core::GemmConfig& config, GemmInputs& inputs);
  void run(std::size_t which);
  void run_next() { run(next_++ % problems_.size()); }
  std::size_t workspace_bytes() const { return workspace_.size(); }

 private:
  std::vector<std::vector<gemm_core::GemmArguments>> problems_;
  std::vector<std::uint8_t> workspace_;
  std::vector<gemm_core::Gemm> single_;
  std::vector<gemm_core::GroupedGemm> grouped_;
  std::size_t next_ = 0;
};

}  // namespace apps
