// SPDX-License-Identifier: Apache-2.0
// Operators that combine elements: norms, products, attention, reductions, sorting.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include "nn/onnx/rows.h"

namespace lockstep::nn::onnx {
namespace {

std::string or_filled(OnnxCall& call, std::size_t i, double value) {
  if (!call.none(i)) return call.in(i);
  return call.filled(call.sizes(0).at(1), value);
}

std::vector<std::int64_t> last_axes(const OnnxCall& call, std::size_t count) {
  std::vector<std::int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), call.rank(0) - static_cast<std::int64_t>(count));
  return axes;
}

/// Returns the dimensions that argument `i` lists; all if it is omitted or empty.
std::vector<std::int64_t> reduced(const OnnxCall& call, std::size_t i) {
  if (!call.none(i) && !call.dims(i).empty()) return call.dims(i);
  return last_axes(call, static_cast<std::size_t>(call.rank(0)));
}

std::int64_t kept(const OnnxCall& call, std::size_t i) { return !call.none(i) && call.flag(i) ? 1 : 0; }

}  // namespace

/// batch_norm(x, weight, bias, mean, variance, training, momentum, eps, ...), and instance_norm likewise.
void batch_norm(OnnxCall& call, const char* op) {
  const bool is_instance = std::string_view(op) == "InstanceNormalization" && call.flag(5);
  if (call.flag(5) && !is_instance) call.refuse("it uses the statistics of the batch");
  std::vector<std::string> inputs = {call.in(0), or_filled(call, 1, 1), or_filled(call, 2, 0)};
  if (!is_instance) inputs.insert(inputs.end(), {call.in(3), call.in(4)});
  call.give(call.add(is_instance ? op : "BatchNormalization", inputs, {{"epsilon", call.number(7)}}));
}

/// layer_norm(x, shape, weight, bias, eps, ...).
void layer_norm(OnnxCall& call, const char* /*op*/) {
  const std::vector<std::int64_t> axes = last_axes(call, call.integers(1).size());
  const auto mean = [&](const std::string& name) {
    return call.add("ReduceMean", {name}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  };
  const std::string centred = call.add("Sub", {call.in(0), mean(call.in(0))});
  const std::string variance = mean(call.add("Mul", {centred, centred}));
  const std::string epsilon = call.constant(call.number(4), call.result_type());
  std::string result = call.add("Div", {centred, call.add("Sqrt", {call.add("Add", {variance, epsilon})})});
  if (!call.none(2)) result = call.add("Mul", {result, call.in(2)});
  if (!call.none(3)) result = call.add("Add", {result, call.in(3)});
  call.give(result);
}

/// group_norm(x, groups, weight, bias, eps, ...): normalizes each group as an instance, then scales each channel.
void group_norm(OnnxCall& call, const char* /*op*/) {
  const std::int64_t groups = call.integer(1);
  const std::string whole = call.add("Shape", {call.in(0)});
  const std::string grouped = call.add("Reshape", {call.in(0), call.integers_of({0, groups, -1})});
  const std::string norm = call.add("InstanceNormalization", {grouped, call.filled(groups, 1), call.filled(groups, 0)},
                                    {{"epsilon", call.number(4)}});
  std::string result = call.add("Reshape", {norm, whole});
  std::vector<std::int64_t> channel(static_cast<std::size_t>(call.rank(0)) - 1, 1);
  channel.front() = call.sizes(0).at(1);
  const auto by_channel = [&](std::size_t i) { return call.add("Reshape", {call.in(i), call.integers_of(channel)}); };
  if (!call.none(2)) result = call.add("Mul", {result, by_channel(2)});
  if (!call.none(3)) result = call.add("Add", {result, by_channel(3)});
  call.give(result);
}

void linear(OnnxCall& call, const char* /*op*/) {
  if (call.rank(0) == 2) {
    std::vector<std::string> inputs = {call.in(0), call.in(1)};
    if (!call.none(2)) inputs.push_back(call.in(2));
    return call.give(call.add("Gemm", inputs, {{"transB", std::int64_t{1}}}));
  }
  const std::string weight = call.add("Transpose", {call.in(1)}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  const std::string product = call.add("MatMul", {call.in(0), weight});
  call.give(call.none(2) ? product : call.add("Add", {product, call.in(2)}));
}

/// beta * x + alpha * (a @ b).
void addmm(OnnxCall& call, const char* /*op*/) {
  if (call.rank(1) == 2) {
    const OnnxAttributes factors = {{"beta", call.number(3)}, {"alpha", call.number(4)}};
    return call.give(call.add("Gemm", {call.in(1), call.in(2), call.in(0)}, factors));
  }
  const auto scaled = [&](const std::string& name, std::size_t i) {
    return call.number(i) == 1 ? name : call.add("Mul", {name, call.constant(call.number(i), call.result_type())});
  };
  call.give(call.add("Add", {scaled(call.in(0), 3), scaled(call.add("MatMul", {call.in(1), call.in(2)}), 4)}));
}

void matmul(OnnxCall& call, const char* /*op*/) { call.give(call.add("MatMul", {call.in(0), call.in(1)})); }

/// scaled_dot_product_attention(query, key, value, mask, dropout, is_causal, scale, enable_gqa); newer versions have
/// the last two.
void attention(OnnxCall& call, const char* /*op*/) {
  if (call.number(4) != 0) call.refuse("its dropout draws random numbers");
  if (!call.none(7) && call.flag(7)) call.refuse("its keys have fewer heads than its queries: repeat them first");
  const at::ScalarType type = call.result_type();
  const std::vector<std::int64_t> query = call.sizes(0);
  const std::size_t rank = query.size();
  std::vector<std::int64_t> turned(rank);
  std::iota(turned.begin(), turned.end(), 0);
  std::swap(turned[rank - 1], turned[rank - 2]);
  const double scale = call.none(6) ? 1 / std::sqrt(static_cast<double>(query[rank - 1])) : call.number(6);
  const std::string keys = call.add("Transpose", {call.in(1)}, {{"perm", turned}});
  const std::string scaled = call.add("Mul", {call.in(0), call.constant(scale, type)});
  std::string scores = call.add("MatMul", {scaled, keys});
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (call.flag(5)) {
    const at::Tensor later = at::full({query[rank - 2], call.sizes(1).at(rank - 2)}, kNever).to(type).triu(1);
    scores = call.add("Add", {scores, call.stored(later)});
  }
  if (!call.none(3)) {
    scores = call.type(3) == at::kBool ? call.add("Where", {call.in(3), scores, call.constant(kNever, type)})
                                       : call.add("Add", {scores, call.in(3)});
  }
  call.give(call.add("MatMul", {call.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), call.in(2)}));
}

void softmax(OnnxCall& call, const char* op) {
  call.give(call.add(op, {call.as(0, call.result_type())}, {{"axis", call.dim(1)}}));
}

/// mean(x, dims, keepdim, ...), or mean(x, dtype); likewise prod, amax and amin.
void reduce(OnnxCall& call, const char* op) {
  const bool has_dims = call.count() > 2;
  const std::vector<std::int64_t> axes = has_dims ? reduced(call, 1) : reduced(call, call.count());
  call.give(
      call.add(op, {call.as(0, call.result_type())}, {{"axes", axes}, {"keepdims", has_dims ? kept(call, 2) : 0}}));
}

void reduce_sum(OnnxCall& call, const char* op) {
  const bool has_dims = call.count() > 2;
  const std::vector<std::int64_t> axes = has_dims ? reduced(call, 1) : reduced(call, call.count());
  call.give(call.add(op, {call.as(0, call.result_type()), call.integers_of(axes)},
                     {{"keepdims", has_dims ? kept(call, 2) : 0}}));
}

namespace {

/// Returns the norm of order `order` over some axes.
std::string norm_of(OnnxCall& call, const std::string& x, double order, const OnnxAttributes& over) {
  if (order == 1) return call.add("ReduceL1", {x}, over);
  if (order == 2) return call.add("ReduceL2", {x}, over);
  if (order == 0) call.refuse("the order of the norm is 0");
  const std::string size = call.add("Abs", {x});
  if (std::isinf(order)) return call.add(order > 0 ? "ReduceMax" : "ReduceMin", {size}, over);
  const auto power = [&](const std::string& name, double exponent) {
    return call.add("Pow", {name, call.constant(exponent, call.result_type())});
  };
  return power(call.add("ReduceL1", {power(size, order)}, over), 1 / order);  // L1 of positive numbers is their sum
}

}  // namespace

/// norm(x, p, dims, keepdim); likewise linalg_vector_norm. The form norm(x, p, dtype) has no dimensions.
void norm(OnnxCall& call, const char* /*op*/) {
  if (call.name() == "norm" && call.count() == 3) call.refuse("it changes the type (dtype)");
  call.give(norm_of(call, call.as(0, call.result_type()), call.none(1) ? 2 : call.number(1),
                    {{"axes", reduced(call, 2)}, {"keepdims", kept(call, 3)}}));
}

/// pairwise_distance(a, b, p, eps, keepdim).
void pairwise_distance(OnnxCall& call, const char* /*op*/) {
  const std::string apart =
      call.add("Add", {call.add("Sub", {call.in(0), call.in(1)}), call.constant(call.number(3), call.result_type())});
  const std::int64_t last = std::max(call.rank(0), call.rank(1)) - 1;
  call.give(
      norm_of(call, apart, call.number(2), {{"axes", std::vector<std::int64_t>{last}}, {"keepdims", kept(call, 4)}}));
}

/// cosine_similarity(a, b, dim, eps).
void cosine_similarity(OnnxCall& call, const char* /*op*/) {
  const OnnxAttributes over = {{"axes", std::vector<std::int64_t>{call.dim(2)}}, {"keepdims", std::int64_t{0}}};
  const auto length = [&](std::size_t i) {
    const std::string least = call.constant(call.number(3), call.result_type());
    return call.add("Max", {call.add("ReduceL2", {call.in(i)}, over), least});
  };
  if (call.rank(0) != call.rank(1)) call.refuse("its arguments have different numbers of dimensions");
  const std::string product =
      call.add("ReduceSum", {call.add("Mul", {call.in(0), call.in(1)}), call.integers_of({call.dim(2)})}, {over[1]});
  call.give(call.add("Div", {product, call.add("Mul", {length(0), length(1)})}));
}

/// bilinear(a, b, weight, bias): a[., 1, 1, I] @ weight[O, I, J] @ b[., 1, J, 1].
void bilinear(OnnxCall& call, const char* /*op*/) {
  const std::int64_t rank = call.rank(0);
  const std::string a = call.add("Unsqueeze", {call.in(0), call.integers_of({rank - 1, rank})});
  const std::string b = call.add("Unsqueeze", {call.in(1), call.integers_of({rank - 1, rank + 1})});
  const std::string product = call.add("MatMul", {call.add("MatMul", {a, call.in(2)}), b});
  const std::string result = call.add("Squeeze", {product, call.integers_of({rank, rank + 1})});
  call.give(call.none(3) ? result : call.add("Add", {result, call.in(3)}));
}

void einsum(OnnxCall& call, const char* /*op*/) {
  call.give(call.add("Einsum", call.list(1), {{"equation", call.text(0)}}));
}

/// embedding_bag(weight, ids, offsets, by_frequency, mode, sparse, factors, include_last_offset, padding): supports
/// bags of one size, whose offsets come from arange().
void embedding_bag(OnnxCall& call, const char* /*op*/) {
  const std::int64_t bags = call.sizes(2).at(0);
  if (call.source(2) != "arange" || call.sizes(1).at(0) % bags != 0 || call.flag(7))
    call.refuse("its bags have different sizes");
  if (!call.none(8) && call.integer(8) >= 0) call.refuse("its bags skip an index");
  const std::int64_t size = call.sizes(1).at(0) / bags;
  const std::string ids = call.add("Reshape", {call.in(1), call.integers_of({-1, size})});
  std::string words = call.add("Gather", {call.in(0), ids}, {{"axis", std::int64_t{0}}});
  if (!call.none(6))
    words = call.add("Mul", {words, call.add("Reshape", {call.in(6), call.integers_of({-1, size, 1})})});
  const std::int64_t mode = call.integer(4);
  const std::vector<std::int64_t> axes = {1};
  const std::pair<std::string, OnnxAttribute> none_kept = {"keepdims", std::int64_t{0}};
  if (mode == 0) return call.give(call.add("ReduceSum", {words, call.integers_of(axes)}, {none_kept}));
  call.give(call.add(mode == 1 ? "ReduceMean" : "ReduceMax", {words}, {{"axes", axes}, none_kept}));
}

/// var(x, unbiased), var(x, dims, unbiased, keepdim), or with a correction instead of `unbiased`; `op`: Sqrt for std.
void variance(OnnxCall& call, const char* op) {
  const bool has_dims = call.count() > 2;
  const std::size_t at = has_dims ? 2 : 1;
  const std::vector<std::int64_t> axes = reduced(call, has_dims ? 1 : call.count());
  double count = 1;
  for (const std::int64_t axis : axes) {
    if (axis == 0) call.refuse("it reduces over the batch");
    count *= static_cast<double>(call.sizes(0).at(static_cast<std::size_t>(axis)));
  }
  const double less = call.none(at) ? 1 : call.number(at);
  const std::string mean = call.add("ReduceMean", {call.in(0)}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  const std::string apart = call.add("Sub", {call.in(0), mean});
  const std::string spread =
      call.add("ReduceMean", {call.add("Mul", {apart, apart})}, {{"axes", axes}, {"keepdims", kept(call, 3)}});
  const std::string result = call.add("Mul", {spread, call.constant(count / (count - less), call.result_type())});
  call.give(*op == 0 ? result : call.add(op, {result}));
}

/// any(x), any(x, dim, keepdim); likewise all().
void truth(OnnxCall& call, const char* op) {
  const bool has_dims = call.count() > 1;
  const std::string number = call.cast(call.as(0, at::kBool), at::kFloat);
  const std::vector<std::int64_t> axes = reduced(call, has_dims ? 1 : call.count());
  call.give(call.cast(call.add(op, {number}, {{"axes", axes}, {"keepdims", has_dims ? kept(call, 2) : 0}}), at::kBool));
}

/// max(x), max(x, other), max(x, dim, keepdim): the values and their positions.
void extremum(OnnxCall& call, const char* op) {
  const bool is_max = std::string_view(op) == "max";
  const std::string name = is_max ? "ReduceMax" : "ReduceMin";
  if (call.count() == 1) return call.give(call.add(name, {call.in(0)}, {{"keepdims", std::int64_t{0}}}));
  if (call.count() == 2) return call.give(call.add(is_max ? "Max" : "Min", {call.in(0), call.in(1)}));
  const std::int64_t keep = kept(call, 2);
  call.give(call.add(name, {call.in(0)}, {{"axes", call.dims(1)}, {"keepdims", keep}}), 0);
  call.give(call.add(is_max ? "ArgMax" : "ArgMin", {call.in(0)}, {{"axis", call.dim(1)}, {"keepdims", keep}}), 1);
}

void arg_extremum(OnnxCall& call, const char* op) {
  if (call.none(1)) {
    if (kept(call, 2) != 0) call.refuse("it keeps the dimensions of a single position");
    const std::string flat = call.add("Reshape", {call.in(0), call.integers_of({-1})});
    return call.give(call.add(op, {flat}, {{"axis", std::int64_t{0}}, {"keepdims", std::int64_t{0}}}));
  }
  call.give(call.add(op, {call.in(0)}, {{"axis", call.dim(1)}, {"keepdims", kept(call, 2)}}));
}

/// topk(x, k, dim, largest, sorted).
void top_k(OnnxCall& call, const char* /*op*/) {
  const auto found = call.add_all("TopK", {call.in(0), call.shape(1)},
                                  {{"axis", call.dim(2)}, {"largest", kept(call, 3)}, {"sorted", kept(call, 4)}}, 2);
  call.give(found[0], 0);
  call.give(found[1], 1);
}

/// sort(x, dim, descending), and argsort. Their second form has `stable` before `dim`; TopK is always stable.
void sort(OnnxCall& call, const char* op) {
  const std::size_t at = call.count() - 2;
  const std::int64_t axis = call.dim(at);
  if (axis == 0) call.refuse("it sorts the batch");
  const auto found =
      call.add_all("TopK", {call.in(0), call.integers_of({call.sizes(0).at(static_cast<std::size_t>(axis))})},
                   {{"axis", axis}, {"largest", kept(call, at + 1)}, {"sorted", std::int64_t{1}}}, 2);
  if (*op != 0) return call.give(found[1]);
  call.give(found[0], 0);
  call.give(found[1], 1);
}

void cumsum(OnnxCall& call, const char* /*op*/) {
  call.give(
      call.add("CumSum", {call.as(0, call.result_type()), call.constant(static_cast<double>(call.dim(1)), at::kLong)}));
}

/// grid_sampler(x, grid, mode, padding, align_corners).
void grid_sampler(OnnxCall& call, const char* /*op*/) {
  constexpr const char* kModes[] = {"bilinear", "nearest", "bicubic"};
  constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};
  call.give(call.add("GridSample", {call.in(0), call.in(1)},
                     {{"mode", std::string(kModes[call.integer(2)])},
                      {"padding_mode", std::string(kPaddings[call.integer(3)])},
                      {"align_corners", kept(call, 4)}}));
}

}  // namespace lockstep::nn::onnx
