// The launches of DeviceTape on the way back.
#include <algorithm>
#include <memory>

#include "sparseconv/cuda/plan_sets.hpp"
#include "sparseconv/cuda/room.hpp"
#include "sparseconv/cuda/training/device_tape.hpp"
#include "sparseconv/cuda/training/move_gradients.hpp"

namespace sparseconv::cuda {

using gemm_core::Activation;
using gemm_core::cuda::WeightGradient;
using Kind = PlanStep::Kind;
using training::BackwardStep;
using training::GradientWrite;

void DeviceTape::prepare_backward(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  const BackwardStep& back = planned_.backward[index];
  for (const int buffer : back.recomputed) prepare_recomputed(buffer);
  if (step.kind == Kind::to_dense || step.kind == Kind::merge) return prepare_move_back(index);
  EpilogueGradient epilogue = epilogue_gradient(index);
  if (step.kind == Kind::elementwise) {  // one more place to go to
    GradientTarget target;
    if (prepare_target(back.inputs[0], target)) epilogue.addend[epilogue.addends++] = target;
  }
  if (step.kind == Kind::batch_norm) return prepare_norm_back(index, epilogue);
  const RowCount rows = rows_of(step.output_level);
  const std::int64_t bias = offsets_[index].bias;
  if (bias >= 0) {
    add_backward("bias gradient",
                 [this, epilogue, rows, to = gradients_.data() + bias](cudaStream_t stream) {
                   pass_back_to_bias(epilogue, rows, to, sums_.data(), stream);
                 });
  } else if (epilogue.activation != Activation::identity || epilogue.addends > 0) {
    add_backward("activation gradient",
                 [epilogue, rows](cudaStream_t stream) { pass_back(epilogue, rows, stream); });
  }
  if (step.kind == Kind::convolution) return prepare_convolution_back(index);
  if (step.kind != Kind::elementwise) prepare_move_back(index);
}

// Places nobody has written become zero first. False where no gradient is wanted.
bool DeviceTape::prepare_target(const GradientWrite& write, GradientTarget& target) {
  if (write.mode == GradientWrite::Mode::none) return false;
  for (const PlanSlice& part : write.cleared) {
    const RowCount rows = rows_of(plan_.buffers[at(part.buffer)].level);
    add_backward("zero",
                 [to = view(part), rows](cudaStream_t stream) { zero_rows(to, rows, stream); });
  }
  target = {view(write.to), write.mode == GradientWrite::Mode::add};
  return true;
}

EpilogueGradient DeviceTape::epilogue_gradient(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  const BackwardStep& back = planned_.backward[index];
  EpilogueGradient e;
  e.gradient = view(back.gradient);
  e.rounds_to_tf32 = rounds();
  if (!step.epilogue.empty() &&
      step.epilogue.back().kind == gemm_core::EpilogueNode::Kind::activate) {
    const PlanEpilogueNode& node = step.epilogue.back();
    const bool is_told_by_input = node.activation == Activation::leaky_relu && node.slope < 0;
    e.activation = node.activation;
    e.slope = node.slope;
    e.value = constant(kept(is_told_by_input ? step.inputs[0] : step.output));
  }
  // One place stays free for the step's own input.
  ENSURE(back.aux.size() + 1 <= static_cast<std::size_t>(kMaxAddends), "a sum of more than ",
         int{kMaxAddends}, " operands has no gradient on CUDA");
  for (const GradientWrite& write : back.aux) {
    GradientTarget target;
    if (prepare_target(write, target)) e.addend[e.addends++] = target;
  }
  return e;
}

// The steps that write it are elementwise, and what they are made of is still there.
void DeviceTape::prepare_recomputed(int buffer) {
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.output.buffer != buffer) continue;
    add_backward("recompute", [input = constant(view(step.inputs[0])), e = row_epilogue(s),
                               to = Destination{kept(step.output), rounds()},
                               rows = rows_of(step.output_level)](cudaStream_t stream) {
      apply_rows(input, e, to, rows, stream);
    });
  }
}

void DeviceTape::prepare_norm_back(std::size_t index, const EpilogueGradient& epilogue) {
  const PlanStep& step = plan_.steps[index];
  const Offsets& offsets = offsets_[index];
  NormGradient norm{
      .input = constant(kept(step.inputs[0])),
      .norm = norm_vectors(index),
      .weight_gradient = gradients_.data() + offsets.weight,
      .bias_gradient = gradients_.data() + offsets.bias,
      .vectors = norm_vectors_.data() + offsets.vectors + 3 * ((step.output.channels + 7) / 8 * 8),
      .to = {}};
  prepare_target(planned_.backward[index].inputs[0], norm.to);
  add_backward("norm gradient",
               [this, epilogue, norm, rows = rows_of(step.output_level)](cudaStream_t stream) {
                 pass_back_through_norm(epilogue, norm, rows, sums_.data(), stream);
               });
}

// Without scratch.
gemm_core::cuda::WeightGradientArguments DeviceTape::weight_gradient(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  const PlanSlice& slice = planned_.backward[index].gradient;
  gemm_core::cuda::WeightGradientArguments dw;
  dw.input = constant(kept(step.inputs[0]));
  dw.gradient = constant(view(slice));
  dw.pairs = pair_jobs_[at(step.map < 0 ? pairs_of_level_.at(step.output_level)
                                        : pairs_of_map_[at(step.map)])]
                 .view();
  dw.cin = step.inputs[0].channels;
  dw.cout = step.output.channels;
  dw.groups = step.groups;
  dw.weight_gradient = gradients_.data() + offsets_[index].weight;
  dw.instance = gemm_core::cuda::choose_pair_instance(
      options_.dtype, dw.cin, dw.cout, dw.groups, is_aligned(step.inputs[0]) && is_aligned(slice),
      device_);
  return dw;
}

void DeviceTape::prepare_convolution_back(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  const Product& product = products_[index];
  const PlanSlice& slice = planned_.backward[index].gradient;
  auto dw = weight_gradient(index);
  dw.pieces = pieces_.data();
  auto weights = std::make_shared<WeightGradient>(dw);
  add_beside("weight gradient", [weights](cudaStream_t stream) { weights->run(stream); });

  GradientTarget target;
  if (!prepare_target(planned_.backward[index].inputs[0], target)) return;
  if (product.cout > step.output.channels) {
    // Weights beyond the layer's channels are zero; so must be what they are multiplied with.
    PlanSlice beyond = slice;
    beyond.channel += slice.channels;
    beyond.channels = product.cout - slice.channels;
    add_backward("zero", [to = view(beyond), rows = rows_of(step.output_level)](
                             cudaStream_t stream) { zero_rows(to, rows, stream); });
  }
  gemm_core::cuda::GatherConvArguments a;
  a.weights = &product.backward;
  a.input = constant(view(slice, product.cout));
  a.output = target.to;
  if (target.adds) a.epilogue.add(constant(target.to));
  add_backward("input gradient",
               convolution(a, product.backward_choice, product.back_map, step.input_level));
}

// Steps without parameters that move rows.
void DeviceTape::prepare_move_back(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  const BackwardStep& back = planned_.backward[index];
  if (step.kind == Kind::merge) {
    EpilogueGradient epilogue = epilogue_gradient(index);
    const RowCount rows = rows_of(step.output_level);
    if (epilogue.activation != Activation::identity || epilogue.addends > 0)
      add_backward("activation gradient",
                   [epilogue, rows](cudaStream_t stream) { pass_back(epilogue, rows, stream); });
    std::vector<MergeGradientPart> parts;
    const auto& levels = plan_.levels[at(step.output_level)].parts;
    for (std::size_t p = 0; p < step.inputs.size(); ++p) {
      MergeGradientPart part;
      prepare_target(back.inputs[p], part.to);
      part.rank_to_row = maps_->rank_to_row(set_of_level_[at(levels[p].level)]);
      parts.push_back(part);
    }
    add_backward(
        "move gradient",
        [parts, rows, gradient = constant(view(back.gradient)), r = rounds(),
         merged = maps_->merge(set_of_level_[at(step.output_level)])](cudaStream_t stream) {
          merge_gradient(parts, merged, gradient, rows, r, stream);
        });
    return;
  }
  GradientTarget to;
  if (!prepare_target(back.inputs[0], to)) return;
  const int level = step.input_level;
  switch (step.kind) {
    case Kind::to_dense:
      add_backward("move gradient", [this, to, level, &dense = dense_[at(step.dense_output)],
                                     shape = *spatial_shape_of(plan_, level, shape_.spatial_shape)](
                                        cudaStream_t stream) {
        to_dense_gradient(level_view(level), dense.gradients.data(), shape, to, rounds(), stream);
      });
      return;
    case Kind::global_max:
    case Kind::global_avg:
      add_backward("move gradient",
                   [this, step = GlobalPoolGradientStep{.kind = step.kind,
                                                        .level = level_view(level),
                                                        .input = constant(kept(step.inputs[0])),
                                                        .gradient = constant(view(back.gradient)),
                                                        .to = to,
                                                        .batch_size = shape_.batch_size,
                                                        .scratch = winners_.data(),
                                                        .rounds_to_tf32 = rounds()}](
                       cudaStream_t stream) { global_pool_gradient(step, stream); });
      return;
    case Kind::devoxelize: {
      const base::ConstTensorView gradient = constant(view(back.gradient));
      if (level == 0) {
        add_backward("move gradient",
                     [to, gradient, r = rounds(), rows = rows_of(level)](cudaStream_t stream) {
                       copy_rows(gradient, to, r, rows, stream);
                     });
        return;
      }
      add_backward("move gradient", [this, blends = blend_arguments(index),
                                     back_step = BlendGradientStep{
                                         .blends = blends_.data(),
                                         .points = rows_of(step.output_level),
                                         .gradient = gradient,
                                         .to = to,
                                         .rows = rows_of(level),
                                         .scratch = shares_.data(),
                                         .rounds_to_tf32 = rounds()}](cudaStream_t stream) {
        find_blends(blends, blends_.data(), stream);
        blend_gradient(back_step, stream);
      });
      return;
    }
    default: {
      const DeviceMapView map = maps_->view(step.map),
                          inverse = maps_->view(products_[index].back_map);
      add_backward("move gradient",
                   [step = PoolGradientStep{.forward = {step.kind, map.canonical, map.row_capacity,
                                                        map.table.taps, step.implicit_zero},
                                            .inverse = inverse.canonical,
                                            .inverse_pitch = inverse.row_capacity,
                                            .input = constant(kept(step.inputs[0])),
                                            .gradient = constant(view(back.gradient)),
                                            .to = to,
                                            .output_rows = rows_of(step.output_level),
                                            .input_rows = rows_of(level),
                                            .scratch = winners_.data(),
                                            .rounds_to_tf32 = rounds()}](cudaStream_t stream) {
                     pool_gradient(step, stream);
                   });
    }
  }
}

}  // namespace sparseconv::cuda
