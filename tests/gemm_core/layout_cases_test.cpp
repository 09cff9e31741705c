// Every case of cases/layout_algebra.json, through the run-time form of the layouts (the types
// share its algorithms; static_layout_test.cpp holds them against it). Cases of other files of the
// same form run the same way.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "gemm_core/layout/algebra.hpp"
#include "gemm_core/layout/gather.hpp"
#include "tests/support/shared_files.hpp"

namespace {

using layout::Index;
using layout::IntTree;
using layout::LayoutTree;
using nlohmann::json;

// An answer that differs from the expected one.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

IntTree read_tree(const json& j) {
  if (j.is_number()) return IntTree(j.get<Index>());
  std::vector<IntTree> list;
  for (const json& child : j) list.push_back(read_tree(child));
  return IntTree::tuple(std::move(list));
}

json write_tree(const IntTree& tree) {
  if (tree.is_leaf) return tree.value.value();
  json list = json::array();
  for (const IntTree& child : tree.children) list.push_back(write_tree(child));
  return list;
}

LayoutTree read_layout(const json& j) {
  return {read_tree(j.at("shape")), read_tree(j.at("stride"))};
}

layout::Tiler read_tiler(const json& j) {
  layout::Tiler tiler;
  for (const json& entry : j) {
    if (entry.is_null())
      tiler.emplace_back();
    else if (entry.is_number())
      tiler.emplace_back(LayoutTree(IntTree(entry.get<Index>()), IntTree(1)));
    else
      tiler.emplace_back(read_layout(entry));
  }
  return tiler;
}

layout::Swizzle read_swizzle(const json& j) {
  return layout::make_swizzle(j.at(0), j.at(1), j.at(2));
}

void expect_equal(const char* what, const json& expected, const json& got) {
  if (expected != got)
    throw Mismatch(std::string(what) + ": expected " + expected.dump() + ", got " + got.dump());
}

json sizes_of_modes(const LayoutTree& a) {
  json list = json::array();
  for (int k = 0; k < rank(a); ++k) list.push_back(size(mode(a, k)).value());
  return list;
}

// Compares whatever parts of a layout the case fixes.
void expect_layout(const json& out, const LayoutTree& got) {
  if (out.contains("table")) expect_equal("table", out["table"], table(got));
  if (out.contains("size")) expect_equal("size", out["size"], size(got).value());
  if (out.contains("cosize")) expect_equal("cosize", out["cosize"], cosize(got).value());
  if (out.contains("mode_sizes"))
    expect_equal("mode_sizes", out["mode_sizes"], sizes_of_modes(got));
  if (!out.contains("sub_sizes")) return;
  json sub_sizes = json::array();
  for (std::size_t k = 0; k < out["sub_sizes"].size(); ++k)
    sub_sizes.push_back(sizes_of_modes(mode(got, static_cast<int>(k))));
  expect_equal("sub_sizes", out["sub_sizes"], sub_sizes);
}

// The shortest form: no mode of size 1, no neighbours that join.
void expect_shortest(const LayoutTree& a) {
  const layout::Modes modes = leaves(a);
  if (depth(a) > 1) throw Mismatch("not flat: " + print(a));
  for (std::size_t k = 0; k < modes.size(); ++k) {
    if (modes.size() > 1 && modes[k].size.is(1)) throw Mismatch("a mode of size 1: " + print(a));
    if (k > 0 && (modes[k - 1].size * modes[k - 1].stride).is(modes[k].stride.value()))
      throw Mismatch("neighbours that join: " + print(a));
  }
}

json sizes_of_leaves(const LayoutTree& a) {
  json list = json::array();
  for (const layout::Mode& m : leaves(a)) list.push_back(m.size.value());
  return list;
}

json strides_of_leaves(const LayoutTree& a) {
  json list = json::array();
  for (const layout::Mode& m : leaves(a)) list.push_back(m.stride.value());
  return list;
}

// R refines b: where b has a leaf, R has modes of that many values in all.
void append_refined_sizes(const LayoutTree& b, const LayoutTree& got, json& sizes) {
  if (b.is_leaf) return sizes.push_back(size(got).value());
  if (rank(b) != rank(got)) throw Mismatch("does not refine the inner layout: " + print(got));
  for (int k = 0; k < rank(b); ++k) append_refined_sizes(mode(b, k), mode(got, k), sizes);
}

void run_evaluate(const json& in, const json& out) {
  expect_layout(out, read_layout(in.at("layout")));
}

void run_coord_to_index(const json& in, const json& out) {
  const Index index = crd2idx(read_tree(in.at("coord")), read_layout(in.at("layout")));
  expect_equal("index", out.at("index"), index);
}

void run_index_to_coord(const json& in, const json& out) {
  expect_equal("coord", out.at("coord"),
               write_tree(layout::idx2crd(in.at("index"), read_tree(in.at("shape")))));
}

void run_coalesce(const json& in, const json& out) {
  const LayoutTree got = coalesce(read_layout(in.at("layout")));
  expect_layout(out, got);
  expect_shortest(got);
  expect_equal("flat_shape", out.at("flat_shape"), sizes_of_leaves(got));
  expect_equal("flat_stride", out.at("flat_stride"), strides_of_leaves(got));
}

void run_coalesce_by_mode(const json& in, const json& out) {
  const LayoutTree got = coalesce_by_mode(read_layout(in.at("layout")));
  expect_layout(out, got);
  for (int k = 0; k < rank(got); ++k) {
    expect_shortest(mode(got, k));
    if (!out.contains("mode_flat")) continue;
    const LayoutTree& m = mode(got, k);
    const json& flat = out["mode_flat"].at(static_cast<std::size_t>(k));
    expect_equal("mode_flat shape", flat.is_object() ? flat.at("shape") : flat.at(0),
                 sizes_of_leaves(m));
    expect_equal("mode_flat stride", flat.is_object() ? flat.at("stride") : flat.at(1),
                 strides_of_leaves(m));
  }
}

void run_compose(const json& in, const json& out) {
  const LayoutTree b = read_layout(in.at("b")), got = composition(read_layout(in.at("a")), b);
  expect_layout(out, got);
  json sizes = json::array();
  append_refined_sizes(b, got, sizes);
  expect_equal("leaf_sizes", out.at("leaf_sizes"), sizes);
}

void run_right_inverse(const json& in, const json& out, bool property) {
  const LayoutTree a = read_layout(in.at("layout")), r = right_inverse(a);
  if (!property) return expect_layout(out, r);
  if (size(r).value() < out.at("size").get<Index>()) throw Mismatch("too small: " + print(r));
  for (Index i = 0; i < size(r).value(); ++i)
    if (a(r(i)) != i) throw Mismatch("A(R(i)) is not i for R = " + print(r));
}

void run_left_inverse(const json& in, const json& out) {
  const LayoutTree a = read_layout(in.at("layout")), r = left_inverse(a);
  for (Index i = 0; i < out.at("domain").get<Index>(); ++i)
    if (r(a(i)) != i) throw Mismatch("R(A(i)) is not i for R = " + print(r));
}

void run_swizzle(const json& in, const json& out) {
  const layout::Swizzle swizzle = read_swizzle(in.at("swizzle"));
  json got = json::array();
  for (const json& x : in.at("x")) got.push_back(swizzle(x.get<Index>()));
  expect_equal("y", out.at("y"), got);
}

void run_composed_layout(const json& in, const json& out) {
  const layout::ComposedTree a{read_swizzle(in.at("swizzle")), in.at("offset"),
                               read_layout(in.at("layout"))};
  json got = json::array();
  for (Index i = 0; i < size(a.inner).value(); ++i) got.push_back(a(i));
  expect_equal("table", out.at("table"), got);
}

void run_swizzle_slice(const json& in, const json& out) {
  const layout::ComposedTree a{read_swizzle(in.at("swizzle")), in.at("offset"),
                               read_layout(in.at("layout"))};
  layout::SliceCoord coord;
  for (const json& c : in.at("coord"))
    coord.push_back(c.is_null() ? std::nullopt : std::optional<IntTree>(read_tree(c)));
  const layout::Slice got = slice(a, coord);
  const LayoutTree& kept = got.swizzled.inner;
  expect_equal("base", out.at("base"), got.base);
  expect_equal("active", out.at("active"), active_bits(kept));
  expect_equal("collision", out.at("collision"), collision(a.swizzle, active_bits(kept)));
  expect_equal("mode_sizes", out.at("mode_sizes"), sizes_of_modes(got.is_plain ? got.plain : kept));
  json values = json::array();
  for (Index i = 0; i < size(kept).value(); ++i) values.push_back(got(i));
  expect_equal("table", out.at("table"), values);
  if (out.at("plain") == "must" && !got.is_plain)
    throw Mismatch("kept the swizzle where it must not");
  if (out.at("plain") == "no" && got.is_plain)
    throw Mismatch("dropped the swizzle where it must not");
}

void run_gather_layout(const json& in, const json& out) {
  const IntTree shape = read_tree(in.at("shape"));
  const LayoutTree slots(shape, read_tree(in.at("gather_stride"))),
      dense(shape, read_tree(in.at("dense_stride")));
  const auto index = in.at("index").get<std::vector<Index>>();
  const auto gather =
      layout::make_gather_layout(slots, dense, index.data(), std::ssize(index), in.at("row_pitch"));
  json got = json::array();
  for (Index i = 0; i < size(slots).value(); ++i) got.push_back(gather(i));
  expect_equal("table", out.at("table"), got);
}

using Runner = std::function<void(const json&, const json&)>;

// An operation that takes `a` and `b`, or `a` and a tiler, and gives a layout.
Runner on_pair(LayoutTree (*operation)(const LayoutTree&, const LayoutTree&)) {
  return [=](const json& in, const json& out) {
    expect_layout(out, operation(read_layout(in.at("a")),
                                 read_layout(in.at(in.contains("b") ? "b" : "tiler"))));
  };
}
Runner on_tiler(LayoutTree (*operation)(const LayoutTree&, const layout::Tiler&)) {
  return [=](const json& in, const json& out) {
    expect_layout(out, operation(read_layout(in.at("a")), read_tiler(in.at("tiler"))));
  };
}

std::map<std::string, Runner> runners(bool property) {
  return {
      {"evaluate", run_evaluate},
      {"coord_to_index", run_coord_to_index},
      {"index_to_coord", run_index_to_coord},
      {"coalesce", run_coalesce},
      {"coalesce_by_mode", run_coalesce_by_mode},
      {"compose", run_compose},
      {"compose_by_mode", on_tiler(layout::composition)},
      {"complement",
       [](const json& in, const json& out) {
         expect_layout(
             out, layout::complement(read_layout(in.at("layout")), in.at("cotarget").get<Index>()));
       }},
      {"logical_divide", on_pair(layout::logical_divide)},
      {"logical_divide_by_mode", on_tiler(layout::logical_divide)},
      {"zipped_divide", on_tiler(layout::zipped_divide)},
      {"tiled_divide", on_tiler(layout::tiled_divide)},
      {"flat_divide", on_tiler(layout::flat_divide)},
      {"logical_product", on_pair(layout::logical_product)},
      {"blocked_product", on_pair(layout::blocked_product)},
      {"raked_product", on_pair(layout::raked_product)},
      {"right_inverse",
       [=](const json& in, const json& out) { run_right_inverse(in, out, property); }},
      {"left_inverse", run_left_inverse},
      {"max_common_vector", on_pair(layout::max_common_vector)},
      {"ordered_layout",
       [](const json& in, const json& out) {
         expect_layout(
             out, layout::ordered_layout(read_tree(in.at("shape")), read_tree(in.at("order"))));
       }},
      {"swizzle", run_swizzle},
      {"composed_layout", run_composed_layout},
      {"swizzle_slice", run_swizzle_slice},
      {"gather_layout", run_gather_layout},
  };
}

// Empty when the case passes, else what went wrong.
std::string run_case(const json& c) {
  const std::string expect = c.at("expect"), op = c.at("op");
  const auto all = runners(expect.starts_with("property"));
  const auto runner = all.find(op);
  if (runner == all.end()) return "unknown operation";
  try {
    runner->second(c.at("in"), c.value("out", json::object()));
  } catch (const base::Error& refused) {
    return expect == "exact" || expect == "property" ? std::string("refused: ") + refused.what()
                                                     : "";
  } catch (
      const std::exception& wrong) {  // a case to refuse has no `out`, so answering it ends here
    return expect == "reject" ? "answered, must refuse" : wrong.what();
  }
  return expect == "reject" ? "answered, must refuse" : "";
}

TEST(LayoutCases, EveryCaseOfTheFileComesOutAsItSays) {
  REQUIRE_SHARED(path, "cases/layout_algebra.json");
  const json file = json::parse(std::ifstream(path));
  ASSERT_EQ(file.at("format"), "gemm_core-layout-cases/1");
  int passed = 0, failed = 0;
  for (const json& c : file.at("cases")) {
    const std::string wrong = run_case(c);
    ++(wrong.empty() ? passed : failed);
    if (!wrong.empty())
      ADD_FAILURE() << c.at("id").get<std::string>() << " " << c.at("op").get<std::string>() << ": "
                    << wrong;
  }
  std::cout << path.filename().string() << ": " << passed << " passed, " << failed << " failed\n";
  EXPECT_GT(passed + failed, 0) << "the file has no cases";
}

}  // namespace
