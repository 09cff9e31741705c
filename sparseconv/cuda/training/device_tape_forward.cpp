// The launches of DeviceTape on the way forward: one or two a step of the plan.
#include <algorithm>
#include <memory>

#include "sparseconv/cuda/plan_sets.hpp"
#include "sparseconv/cuda/point_kernels.hpp"
#include "sparseconv/cuda/room.hpp"
#include "sparseconv/cuda/training/device_tape.hpp"

namespace sparseconv::cuda {

using gemm_core::cuda::GatherConv;
using gemm_core::cuda::LayerChoice;
using gemm_core::cuda::TilePart;
using Kind = PlanStep::Kind;

void DeviceTape::prepare_forward(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  const base::ConstTensorView input = constant(view(step.inputs[0]));
  const int level = step.input_level;
  if (step.kind == Kind::convolution) return prepare_convolution(index);
  if (step.kind == Kind::to_dense) {
    Dense& dense = dense_[at(step.dense_output)];
    add_forward("to_dense", [this, &dense, input, level,
                             shape = *spatial_shape_of(plan_, level, shape_.spatial_shape)](
                                cudaStream_t stream) {
      if (dense.values.size() == 0) return;
      CUDA_CHECK(cudaMemsetAsync(dense.values.data(), 0, dense.values.nbytes(), stream));
      to_dense(level_view(level), input, dense.values.data(), shape, stream);
    });
    return;
  }
  const Destination to{view(step.output), rounds()};
  const RowCount rows = rows_of(step.output_level);
  switch (step.kind) {
    case Kind::batch_norm:
      add_forward("moments", [this, input, rows, norm = norm_vectors(index)](cudaStream_t stream) {
        find_moments(input, norm, rows, sums_.data(), stream);
      });
      [[fallthrough]];
    case Kind::elementwise:
      add_forward("apply", [input, to, rows, e = row_epilogue(index)](cudaStream_t stream) {
        apply_rows(input, e, to, rows, stream);
      });
      return;
    case Kind::global_max:
    case Kind::global_avg:
      add_forward("global pool", [this, input, to, level, kind = step.kind](cudaStream_t stream) {
        global_pool(kind, level_view(level), input, to, shape_.batch_size, stream);
      });
      return;
    case Kind::merge: {
      std::vector<MergePart> parts;
      const auto& levels = plan_.levels[at(step.output_level)].parts;
      for (std::size_t p = 0; p < step.inputs.size(); ++p)
        parts.push_back({constant(view(step.inputs[p])),
                         maps_->rank_to_row(set_of_level_[at(levels[p].level)])});
      add_forward("merge",
                  [parts, to, rows, merged = maps_->merge(set_of_level_[at(step.output_level)])](
                      cudaStream_t stream) { merge(parts, merged, to, rows, stream); });
      return;
    }
    case Kind::devoxelize:
      if (level == 0) {
        add_forward("devoxelize", [input, to, rows](cudaStream_t stream) {
          gather_points({nullptr, rows}, input, to, stream);
        });
        return;
      }
      add_forward("devoxelize",
                  [this, input, to, rows, blends = blend_arguments(index)](cudaStream_t stream) {
                    find_blends(blends, blends_.data(), stream);
                    blend_points(blends_.data(), rows, input, to, stream);
                  });
      return;
    default:
      prepare_pool(index);
  }
}

// Every voxel is a point at its centre.
BlendArguments DeviceTape::blend_arguments(std::size_t index) const {
  const PlanStep& step = plan_.steps[index];
  return {.points = {nullptr, rows_of(step.output_level)},
          .positions = nullptr,
          .voxel_keys = shape_.is_sorted ? maps_->keys(0) : row_keys_.data(),
          .level = maps_->set(set_of_level_[at(step.input_level)]),
          .transform = transform_of(plan_, step.input_level),
          .trilinear = step.trilinear};
}

void DeviceTape::prepare_pool(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  const DeviceMapView map = maps_->view(step.map);
  const PoolStep pooling{step.kind, map.canonical, map.row_capacity, map.table.taps,
                         step.implicit_zero};
  add_forward("pool", [pooling, input = constant(view(step.inputs[0])),
                       to = Destination{view(step.output), rounds()},
                       rows = rows_of(step.output_level)](cudaStream_t stream) {
    pool(pooling, input, to, rows, stream);
  });
}

void DeviceTape::prepare_convolution(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  const Product& product = products_[index];
  gemm_core::cuda::GatherConvArguments a;
  a.weights = &product.forward;
  a.input = constant(view(step.inputs[0], product.cin));
  a.output = view(step.output, product.cout);
  for (const PlanEpilogueNode& node : step.epilogue) {
    switch (node.kind) {
      case gemm_core::EpilogueNode::Kind::scale_shift:
        // Entries of the flat array are padded with zeros beyond any channel computed.
        a.epilogue.scale_shift(nullptr, values_.data() + offsets_[index].bias);
        break;
      case gemm_core::EpilogueNode::Kind::add:
        a.epilogue.add(constant(view(node.aux)));
        break;
      default:
        a.epilogue.activate(node.activation, node.slope);
        break;
    }
  }
  add_forward("convolution", convolution(a, product.forward_choice, step.map, step.output_level));
}

// A product over `map` (-1: each row reads its own) into the rows of `level`.
DeviceTape::Launch DeviceTape::convolution(const gemm_core::cuda::GatherConvArguments& arguments,
                                           const LayerChoice& choice, int map, int level) {
  gemm_core::cuda::GatherConvArguments a = arguments;
  a.row_count = rows_of(level).count;
  a.overlap = true;
  const std::int64_t cout = a.weights->cout;
  if (choice.instance != nullptr) {
    a.instance = choice.instance;
    a.table =
        map < 0 ? tables_.identity(level, shape_.rows[at(level)]).view() : maps_->view(map).table;
    a.centre = tables_.schedule(a.table, TilePart::centre, *choice.instance, cout);
    if (choice.planes) {
      a.outer = tables_.schedule(a.table, TilePart::outer, *choice.instance, cout);
      a.partials = partials_.data();
    }
  } else if (map >= 0) {
    const DeviceMapView view = maps_->view(map);
    a.canonical = view.canonical;
    a.canonical_pitch = view.row_capacity;
  }
  auto conv = std::make_shared<GatherConv>(a);
  return [conv](cudaStream_t stream) { conv->run(stream); };
}

NormVectors DeviceTape::norm_vectors(std::size_t index) {
  const Offsets& offsets = offsets_[index];
  const std::int64_t pitch = (plan_.steps[index].output.channels + 7) / 8 * 8;
  float* const vectors = norm_vectors_.data() + offsets.vectors;
  NormVectors norm{.weight = values_.data() + offsets.weight,
                   .bias = values_.data() + offsets.bias,
                   .mean = batch_.data() + offsets.running_mean,
                   .variance = batch_.data() + offsets.running_variance,
                   .eps = offsets.eps,
                   .centre = vectors,
                   .scale = vectors + pitch,
                   .shift = vectors + 2 * pitch};
  if (options_.freezes_statistics) {
    norm.running_mean = statistics_.data() + offsets.running_mean;
    norm.running_variance = statistics_.data() + offsets.running_variance;
  }
  return norm;
}

// Of batch norms and elementwise steps.
RowEpilogue DeviceTape::row_epilogue(std::size_t index) const {
  const PlanStep& step = plan_.steps[index];
  RowEpilogue e;
  if (step.kind == Kind::batch_norm) {
    const std::int64_t pitch = (step.output.channels + 7) / 8 * 8;
    e.centre = norm_vectors_.data() + offsets_[index].vectors;
    e.scale = e.centre + pitch;
    e.shift = e.centre + 2 * pitch;
  }
  for (const PlanEpilogueNode& node : step.epilogue) {
    if (node.kind == gemm_core::EpilogueNode::Kind::add) {
      ENSURE(e.addends < kMaxAddends, "a sum of more than ", kMaxAddends + 1, " operands");
      e.addend[e.addends++] = constant(view(node.aux));
    } else {
      ENSURE(node.kind == gemm_core::EpilogueNode::Kind::activate,
             "a bias that is no product's has no gradient on CUDA");
      e.activation = node.activation;
      e.slope = node.slope;
    }
  }
  return e;
}

}  // namespace sparseconv::cuda
