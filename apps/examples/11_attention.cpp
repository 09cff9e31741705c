// Attention without its score matrix: softmax(Q K^T / sqrt(d)) V over blocks of keys, with the
// running maximum and sum of Milakov and Gimelshein that FlashAttention (Dao et al.) made known.
// The softmax of a block is a node in the epilogue of Q K^T, on scores that are still in cache; its
// second product adds to the output in place. Memory grows with the length, not with its square.
//   11_attention [queries = 700] [keys = 900] [channels = 64]
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <gemm_core/base/error.hpp>
#include <gemm_core/device/gemm.hpp>
#include <gemm_core/epilogue/visitor_tree.hpp>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

namespace {

using base::DType;
using gemm_core::Gemm;
using gemm_core::GemmArguments;
using Matrix = std::vector<float>;  // row-major
using Size = std::int64_t;

constexpr Size kBlock = 256;  // keys; no more than the columns of a tile
constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Attention {
  Size queries, keys, channels;
  bool is_causal = false;  // query i sees the keys up to i
  Matrix q, k, v;
};

struct Running {
  std::vector<float> maximum, sum;  // of each query, over the keys seen so far
};

// Scores of a block of keys -> their weights relative to the running maximum. Where that grows, the
// query's sum and output so far shrink. A tile holds whole rows of the block, so a row has one
// owner.
struct SoftmaxOfBlock {
  Running* running;
  float* output;
  Size channels, first_key;
  bool is_causal;

  gemm_core::visitor::Fragment visit(gemm_core::visitor::Piece& piece,
                                     gemm_core::visitor::Inputs inputs) const {
    float* weights = piece.take();
    for (Size i = 0; i < piece.rows; ++i) {
      const Size query = piece.place.m0 + i;
      const float* scores = inputs[0] + i * piece.columns;
      const Size seen =
          is_causal ? std::clamp<Size>(query + 1 - first_key, 0, piece.columns) : piece.columns;
      weigh(query, scores, seen, weights + i * piece.columns);
      std::fill(weights + i * piece.columns + seen, weights + (i + 1) * piece.columns, 0.0f);
    }
    return weights;
  }

 private:
  void weigh(Size query, const float* scores, Size seen, float* weights) const {
    if (seen == 0) return;
    auto& maximum = running->maximum[static_cast<std::size_t>(query)];
    auto& sum = running->sum[static_cast<std::size_t>(query)];
    const float grown = std::max(maximum, *std::max_element(scores, scores + seen));
    const float shrink = std::exp(maximum - grown);
    maximum = grown;
    sum *= shrink;
    for (Size j = 0; j < seen; ++j) sum += weights[j] = std::exp(scores[j] - grown);
    float* row = output + query * channels;
    for (Size c = 0; c < channels; ++c) row[c] *= shrink;
  }
};

void multiply(const GemmArguments& arguments, std::vector<std::uint8_t>& workspace) {
  workspace.resize(std::max(workspace.size(), Gemm::workspace_size(arguments)));
  Gemm gemm;
  auto status = gemm.initialize(arguments, workspace.data(), workspace.size());
  if (status.ok()) status = gemm.run();
  ENSURE(status.ok(), status.message);
}

Matrix attend(const Attention& a) {
  using namespace gemm_core::visitor;  // NOLINT: nodes
  Running running{std::vector<float>(static_cast<std::size_t>(a.queries), kNothing),
                  std::vector<float>(static_cast<std::size_t>(a.queries), 0.0f)};
  Matrix output(static_cast<std::size_t>(a.queries * a.channels), 0.0f),
      weights(static_cast<std::size_t>(a.queries * kBlock));
  std::vector<std::uint8_t> workspace;
  for (Size first = 0; first < a.keys; first += kBlock) {
    const Size keys = std::min(kBlock, a.keys - first);
    VisitorEpilogue softmax(tree(
        SoftmaxOfBlock{&running, output.data(), a.channels, first, a.is_causal}, Accumulator{}));
    GemmArguments scores{.m = a.queries, .n = keys, .k = a.channels};
    scores.a = {a.q.data(), DType::f32, a.channels, 1};
    scores.b = {a.k.data() + first * a.channels, DType::f32, 1, a.channels};  // K^T
    scores.d = {weights.data(), DType::f32, kBlock, 1};
    scores.alpha = 1 / std::sqrt(static_cast<double>(a.channels));
    scores.tiling = {.tile_m = 96, .tile_n = kBlock};
    scores.visitor = &softmax;
    multiply(scores, workspace);

    GemmArguments sums{.m = a.queries, .n = a.channels, .k = keys, .beta = 1};
    sums.a = {weights.data(), DType::f32, kBlock, 1};
    sums.b = {a.v.data() + first * a.channels, DType::f32, a.channels, 1};
    sums.c = {output.data(), DType::f32, a.channels, 1};
    sums.d = {output.data(), DType::f32, a.channels, 1};
    multiply(sums, workspace);
  }
  for (Size i = 0; i < a.queries; ++i) {
    for (Size c = 0; c < a.channels; ++c)
      output[static_cast<std::size_t>(i * a.channels + c)] /=
          running.sum[static_cast<std::size_t>(i)];
  }
  return output;
}

// Row `query` by the definition, in double.
std::vector<double> attend_naively(const Attention& a, Size query) {
  const Size keys = a.is_causal ? std::min(a.keys, query + 1) : a.keys;
  std::vector<double> weights(static_cast<std::size_t>(keys)),
      result(static_cast<std::size_t>(a.channels));
  double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
  for (Size j = 0; j < keys; ++j) {
    double score = 0;
    for (Size c = 0; c < a.channels; ++c) {
      score += double{a.q[static_cast<std::size_t>(query * a.channels + c)]} *
               a.k[static_cast<std::size_t>(j * a.channels + c)];
    }
    weights[static_cast<std::size_t>(j)] = score / std::sqrt(static_cast<double>(a.channels));
    maximum = std::max(maximum, weights[static_cast<std::size_t>(j)]);
  }
  for (double& w : weights) sum += w = std::exp(w - maximum);
  for (Size j = 0; j < keys; ++j) {
    for (Size c = 0; c < a.channels; ++c) {
      result[static_cast<std::size_t>(c)] += weights[static_cast<std::size_t>(j)] / sum *
                                             a.v[static_cast<std::size_t>(j * a.channels + c)];
    }
  }
  return result;
}

double worst_difference(const Attention& a) {
  const Matrix got = attend(a);
  double worst = 0;
  for (Size i = 0; i < a.queries; ++i) {
    const auto want = attend_naively(a, i);
    for (Size c = 0; c < a.channels; ++c) {
      const double difference = std::abs(got[static_cast<std::size_t>(i * a.channels + c)] -
                                         want[static_cast<std::size_t>(c)]);
      worst = difference <= worst ? worst : difference;  // a NaN stays
    }
  }
  return worst;
}

Matrix random_matrix(Size rows, Size columns, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2);  // scores far enough apart to move the maximum
  Matrix values(static_cast<std::size_t>(rows * columns));
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto number = [&](int i, Size otherwise) {
    return argc > i ? std::atoll(argv[i]) : otherwise;
  };
  Attention a{number(1, 700), number(2, 900), number(3, 64), false, {}, {}, {}};
  ENSURE(a.queries > 0 && a.keys > 0 && a.channels > 0,
         "usage: queries keys channels, all above 0");
  a.q = random_matrix(a.queries, a.channels, 1);
  a.k = random_matrix(a.keys, a.channels, 2);
  a.v = random_matrix(a.keys, a.channels, 3);
  bool good = true;
  for (const bool is_causal : {false, true}) {
    a.is_causal = is_causal;
    const double worst = worst_difference(a);
    std::cout << (is_causal ? "causal" : "full") << " attention of " << a.queries << " queries on "
              << a.keys << " keys: largest difference from the definition " << worst << "\n";
    good = good && worst < 1e-4;
  }
  return good ? 0 : 1;
} catch (const std::exception& wrong) {
  std::cerr << wrong.what() << "\n";
  return 2;
}
