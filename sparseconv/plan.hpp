// How a model is run, worked out once and independent of the backend: which coordinate sets and
// kernel maps a frame needs, the fused steps in order, and which step reads and writes which part
// of which buffer. Plain data; sizes are symbolic (rows of a level, known per frame) until
// `place_buffers`.
//
//   const Plan plan = make_plan(model);
//   const Placement at = place_buffers(plan, rows_of_each_level, bytes_per_element);
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gemm_core/epilogue/epilogue.hpp"
#include "sparseconv/graph.hpp"
#include "sparseconv/kernel_map.hpp"

namespace sparseconv {

struct PlanMap {
  KernelMap::Kind kind = KernelMap::Kind::convolution;
  ConvGeometry geometry;
  int input = 0, output = 0;  // levels
  int forward = -1;           // inverse: the map (of a lower index) that is turned round
  friend bool operator==(const PlanMap&, const PlanMap&) = default;
};

// [rows of level, channels] of the storage type, unit stride along channels, row pitch = channels.
struct PlanBuffer {
  int level = 0;
  std::int64_t channels = 0;
  int first_step = 0, last_step = 0;  // inclusive: alive from the first write to the last read
  bool is_f32 = false;                // whatever the storage type: gradients
};

// Columns [channel, channel + channels) of a buffer: a whole buffer, or a part of a concatenation.
struct PlanSlice {
  int buffer = -1;
  std::int64_t channel = 0, channels = 0;
};

// A node of a step's epilogue, on fp32 values before they are stored.
struct PlanEpilogueNode {
  gemm_core::EpilogueNode::Kind kind = gemm_core::EpilogueNode::Kind::activate;
  std::vector<float> scale, shift;  // scale_shift: [channels]; an empty scale is 1
  PlanSlice aux;                    // add
  gemm_core::Activation activation = gemm_core::Activation::identity;
  float slope = 0.01f;
};

struct PlanStep {
  enum class Kind : std::uint8_t {
    convolution,  // output = epilogue(sum over taps of input[map] * weight); map -1: one tap,
                  // identity
    elementwise,  // output = epilogue(input)
    max_pool,
    avg_pool,
    sum_pool,
    global_max,
    global_avg,
    merge,     // output rows sum the input rows that fall on them, in order of inputs, then rows
    to_dense,  // into output `dense_output`
    devoxelize,
    batch_norm,  // output = epilogue(normalised input): in plans for training only
  } kind = Kind::elementwise;
  std::string node;  // for messages and profiles: the last node fused into this step
  int map = -1;
  std::vector<PlanSlice> inputs;
  PlanSlice output;
  int input_level = 0, output_level = 0;
  // convolution
  base::Tensor
      weight;  // f32 [cout, kx, ky, kz, cin / groups] or [cout, cin], shared with the model
  std::int64_t taps = 1, groups = 1;
  std::vector<PlanEpilogueNode> epilogue;
  int parameters = -1;  // convolution, batch_norm: the node of Model::nodes whose weights they are
  bool implicit_zero = false;  // max_pool
  bool trilinear = false;      // devoxelize
  int dense_output = -1;       // to_dense: index into Plan::outputs
};

struct PlanOutput {
  std::string node;
  int level = 0;  // of its rows, or of the rows that to_dense spreads
  std::int64_t channels = 0;
  bool is_dense = false;
  PlanSlice value;  // where it is sparse
};

// Centre coordinates of a level from those of the input: at_level = at_input * scale + shift, per
// axis.
struct LevelTransform {
  std::array<double, 3> scale{1, 1, 1}, shift{0, 0, 0};
};

struct Plan {
  std::vector<Level> levels;        // a level comes after its sources
  std::vector<bool> is_level_used;  // false: only nodes that no output needs stand on it
  std::vector<PlanMap> maps;
  std::vector<LevelCheck> checks;
  std::vector<PlanBuffer> buffers;
  std::vector<PlanStep> steps;
  std::vector<PlanOutput> outputs;  // as Model::outputs
  PlanSlice input;                  // where the frame's features go before step 0
  bool needs_points = false;        // some level has one row a point
  bool needs_positions = false;     // some devoxelize asks where points are
};

enum class PlanPurpose : std::uint8_t {
  inference,
  // Batch norms are steps of their own. An epilogue is a bias, sums, and at most one activation at
  // its end, whose derivative follows from its value; buffers are alive as long as the forward pass
  // needs them (training/training_plan.hpp has the backward pass).
  training,
};

// Precondition: validate(model). Nodes that no output needs are left out.
Plan make_plan(const Model& model, PlanPurpose purpose = PlanPurpose::inference);
LevelTransform transform_of(const Plan& plan, int level);

// Where each buffer stands in one arena. Buffers that are alive at the same time do not overlap;
// equal sizes give equal placements. Offsets are multiples of 64 bytes.
struct Placement {
  std::vector<std::int64_t> offset;  // bytes, of a buffer
  std::int64_t bytes = 0;            // of the arena
  std::int64_t largest_two = 0;      // largest sum of two buffers alive in one step
  // Kept between frames so that placing allocates nothing.
  struct Scratch {
    std::vector<std::int64_t> size;
    std::vector<int> by_size, neighbours;
  } scratch;
};
void place_buffers(const Plan& plan, std::span<const std::int64_t> rows, int bytes_per_element,
                   Placement& placement);

}  // namespace sparseconv
