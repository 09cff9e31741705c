// One refusal a case; expect_refusal.cmake compiles them one by one.
#include "gemm_core/atom/copy_atom.hpp"
#include "gemm_core/atom/cuda_mma_traits.hpp"
#include "gemm_core/atom/mma_atom.hpp"
#include "gemm_core/base/array.hpp"
#include "gemm_core/collective/pipeline.hpp"
#include "gemm_core/device/typed_gemm.hpp"
#include "gemm_core/layout/composed_layout.hpp"
#include "gemm_core/layout/static_algebra.hpp"

using namespace layout;  // NOLINT: a test file

template <Index... N>
using Sizes = Tuple<Int<N>...>;

#if REFUSAL == 0
constexpr auto kControl =
    composition(Layout<Sizes<4, 2>, Sizes<1, 10>>{}, Layout<Int<4>, Int<2>>{});
#elif REFUSAL == 1  // 0, 1, 2, 3, 10, 11 is no layout of size 6
constexpr auto kRefused =
    composition(Layout<Sizes<4, 2>, Sizes<1, 10>>{}, Layout<Int<6>, Int<1>>{});
#elif REFUSAL == 2  // 2 + 2 carries into the second mode
constexpr auto kRefused =
    composition(Layout<Sizes<4, 4>, Sizes<1, 100>>{}, Layout<Sizes<3, 2>, Sizes<1, 2>>{});
#elif REFUSAL == 3  // 0, 1, 3, 4 leave 2
constexpr auto kRefused = complement(Layout<Sizes<2, 2>, Sizes<1, 3>>{}, Int<24>{});
#elif REFUSAL == 4
constexpr auto kRefused =
    logical_divide(Layout<Int<24>, Int<1>>{}, Layout<Sizes<2, 2>, Sizes<1, 3>>{});
#elif REFUSAL == 5
constexpr auto kRefused = left_inverse(Layout<Sizes<4, 2>, Sizes<1, 0>>{});
#elif REFUSAL == 6
constexpr auto kRefused = make_layout(Sizes<4, 2>{}, Int<1>{});
#elif REFUSAL == 7
constexpr auto kRefused = Layout<Sizes<4, 2>, Sizes<1, 4>>{}(Tuple(0, Tuple(0, 0)));
#elif REFUSAL == 8
constexpr auto kRefused = make_composed_layout<Swizzle{3, 0, 2}>(Layout<Int<8>, Int<1>>{});
#elif REFUSAL == 9
constexpr auto kRefused = slice(
    make_composed_layout<Swizzle{1, 0, 2}>(Layout<Sizes<4, 2>, Sizes<1, 4>>{}), Tuple(0, _, _));
#elif REFUSAL == 10
constexpr auto kRefused =
    logical_product(Layout<Sizes<2, 2>, Sizes<1, 3>>{}, Layout<Int<2>, Int<1>>{});
#elif REFUSAL == 11  // sizes known only at run time decide no vector width
const auto kRefused = max_common_vector(make_layout(8, 1), Layout<Int<8>, Int<1>>{});
#elif REFUSAL == 12
const auto kRefused =
    base::transform(base::plus{}, base::Array<float, 4>{}, base::Array<float, 3>{});
#elif REFUSAL == 13
const auto kRefused = sizeof(gemm_core::TypedGemm<float, double, float, float>);
#elif REFUSAL == 14
struct OneThreadMore : gemm_core::Sm80Mma16x8x8Tf32 {
  static constexpr int kThreads = 33;
};
const auto kRefused = sizeof(gemm_core::MmaAtom<OneThreadMore>);
#elif REFUSAL == 15
struct FourElements {
  using Element = float;
  static constexpr int kThreads = 1, kElements = 4;
  using SourceLayout = Layout<Sizes<1, 4>, Sizes<0, 1>>;
  using TargetLayout = SourceLayout;
};
using TooWide = gemm_core::TiledCopy<gemm_core::CopyAtom<FourElements>,
                                     Layout<Sizes<8, 4>, Sizes<4, 1>>, 16, 1>;
const auto kRefused = sizeof(TooWide);
#elif REFUSAL == 16
const auto kRefused = sizeof(gemm_core::PipelineState<0>);
#endif
