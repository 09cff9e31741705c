#include "apps/bench/gemm_contender.hpp"

#include <algorithm>

#include "gemm_core/base/error.hpp"

namespace apps {
namespace {

void check(const gemm_core::GemmStatus& status) { ENSURE(status.ok(), status.message); }

}  // namespace

GemmContender::GemmContender(const gemm_core::GemmConfig& config, GemmInputs& inputs) {
  for (int i = 0; i < inputs.workspaces(); ++i) {
    std::vector<gemm_core::GemmArguments> groups = inputs.arguments(i);
    for (auto& g : groups) gemm_core::apply(config, g);
    const std::size_t bytes = groups.size() == 1 ? gemm_core::Gemm::workspace_size(groups[0])
                                                 : gemm_core::GroupedGemm::workspace_size(groups);
    workspace_.resize(std::max(workspace_.size(), bytes));
    problems_.push_back(std::move(groups));
  }
  for (const auto& groups : problems_) {
    if (groups.size() == 1)
      check(single_.emplace_back().initialize(groups[0], workspace_.data(), workspace_.size()));
    else
      check(grouped_.emplace_back().initialize(groups, workspace_.data(), workspace_.size()));
  }
}

void GemmContender::run(std::size_t which) {
  check(single_.empty() ? grouped_[which].run() : single_[which].run());
}

}  // namespace apps
