// SPDX-License-Identifier: Apache-2.0
// Operators that combine elements: convolutions, norms, products, poolings, sums.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "nn/onnx/rows.h"

namespace lockstep::nn::onnx {
namespace {

std::vector<std::int64_t> twice(std::vector<std::int64_t> pads, std::size_t dims) {
  if (pads.size() == 1) pads.resize(dims, pads.front());
  pads.insert(pads.end(), pads.begin(), pads.end());
  return pads;
}

std::vector<std::int64_t> all_of(std::vector<std::int64_t> numbers, std::size_t dims) {
  if (numbers.size() == 1) numbers.resize(dims, numbers.front());
  return numbers;
}

std::size_t spatial(const OnnxCall& call) { return static_cast<std::size_t>(call.rank(0)) - 2; }

std::string or_filled(OnnxCall& call, std::size_t i, double value) {
  if (!call.none(i)) return call.in(i);
  return call.filled(call.sizes(0).at(1), value);
}

std::vector<std::int64_t> last_axes(const OnnxCall& call, std::size_t count) {
  std::vector<std::int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), call.rank(0) - static_cast<std::int64_t>(count));
  return axes;
}

/// The dimensions that argument `i` lists; all where it is left out or empty.
std::vector<std::int64_t> reduced(const OnnxCall& call, std::size_t i) {
  if (!call.none(i) && !call.dims(i).empty()) return call.dims(i);
  return last_axes(call, static_cast<std::size_t>(call.rank(0)));
}

std::int64_t kept(const OnnxCall& call, std::size_t i) { return !call.none(i) && call.flag(i) ? 1 : 0; }

void resize(OnnxCall& call, const OnnxAttributes& attributes) {
  std::vector<std::int64_t> sizes = call.result_sizes();
  sizes.erase(sizes.begin(), sizes.begin() + 2);
  const std::string head =
      call.add("Slice", {call.add("Shape", {call.in(0)}), call.integers_of({0}), call.integers_of({2})});
  const std::string target = call.add("Concat", {head, call.integers_of(sizes)}, {{"axis", std::int64_t{0}}});
  call.give(call.add("Resize", {call.in(0), "", "", target}, attributes));
}

}  // namespace

/// _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ...).
void convolution(OnnxCall& call, const char* /*op*/) {
  const std::size_t dims = spatial(call);
  OnnxAttributes attributes = {{"strides", all_of(call.integers(3), dims)},
                               {"pads", twice(call.integers(4), dims)},
                               {"dilations", all_of(call.integers(5), dims)},
                               {"group", call.integer(8)}};
  const bool transposed = call.flag(6);
  if (transposed) attributes.emplace_back("output_padding", all_of(call.integers(7), dims));
  std::vector<std::string> inputs = {call.in(0), call.in(1)};
  if (!call.none(2)) inputs.push_back(call.in(2));
  call.give(call.add(transposed ? "ConvTranspose" : "Conv", inputs, attributes));
}

/// batch_norm(x, weight, bias, mean, variance, training, momentum, eps, ...), instance_norm the same.
void batch_norm(OnnxCall& call, const char* op) {
  const bool is_instance = std::string_view(op) == "InstanceNormalization";
  if (call.flag(5) && !is_instance) call.refuse("it is in training mode");
  std::vector<std::string> inputs = {call.in(0), or_filled(call, 1, 1), or_filled(call, 2, 0)};
  if (!is_instance) inputs.insert(inputs.end(), {call.in(3), call.in(4)});
  call.give(call.add(op, inputs, {{"epsilon", call.number(7)}}));
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

/// group_norm(x, groups, weight, bias, eps, ...): the norm of each group as an instance, then each channel's factor.
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

/// max_poolNd(x, kernel, stride, padding, dilation, ceil_mode).
void max_pool(OnnxCall& call, const char* /*op*/) {
  const std::size_t dims = spatial(call);
  const std::vector<std::int64_t> stride = call.integers(2);
  call.give(call.add("MaxPool", {call.in(0)},
                     {{"kernel_shape", all_of(call.integers(1), dims)},
                      {"strides", all_of(stride.empty() ? call.integers(1) : stride, dims)},
                      {"pads", twice(call.integers(3), dims)},
                      {"dilations", all_of(call.integers(4), dims)},
                      {"ceil_mode", kept(call, 5)}}));
}

/// avg_poolNd(x, kernel, stride, padding, ceil_mode, count_include_pad, ...).
void average_pool(OnnxCall& call, const char* /*op*/) {
  const std::size_t dims = spatial(call);
  const std::vector<std::int64_t> stride = call.integers(2);
  call.give(call.add("AveragePool", {call.in(0)},
                     {{"kernel_shape", all_of(call.integers(1), dims)},
                      {"strides", all_of(stride.empty() ? call.integers(1) : stride, dims)},
                      {"pads", twice(call.integers(3), dims)},
                      {"ceil_mode", kept(call, 4)},
                      {"count_include_pad", kept(call, 5)}}));
}

/// Windows of one size, where the input is a multiple of the output.
void adaptive_average_pool(OnnxCall& call, const char* /*op*/) {
  const std::vector<std::int64_t> out = call.integers(1);
  std::vector<std::int64_t> window;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t size = call.sizes(0).at(i + 2);
    if (size % out[i] != 0) call.refuse("its windows have different sizes");
    window.push_back(size / out[i]);
  }
  call.give(call.add("AveragePool", {call.in(0)}, {{"kernel_shape", window}, {"strides", window}}));
}

void softmax(OnnxCall& call, const char* op) {
  call.give(call.add(op, {call.as(0, call.result_type())}, {{"axis", call.dim(1)}}));
}

/// mean(x, dims, keepdim, ...), or mean(x, dtype); prod, amax and amin are alike.
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

/// norm(x, p, dims, keepdim), linalg_vector_norm alike.
void norm(OnnxCall& call, const char* /*op*/) {
  const double order = call.none(1) ? 2 : call.number(1);
  if (order != 1 && order != 2) call.refuse("its order is neither 1 nor 2");
  call.give(call.add(order == 1 ? "ReduceL1" : "ReduceL2", {call.in(0)},
                     {{"axes", reduced(call, 2)}, {"keepdims", kept(call, 3)}}));
}

/// max(x), max(x, other), max(x, dim, keepdim): the values and where they are.
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

void cumsum(OnnxCall& call, const char* /*op*/) {
  call.give(
      call.add("CumSum", {call.as(0, call.result_type()), call.constant(static_cast<double>(call.dim(1)), at::kLong)}));
}

/// upsample_bilinear2d(x, size, align_corners, ...).
void upsample_bilinear(OnnxCall& call, const char* /*op*/) {
  resize(call,
         {{"mode", std::string("linear")},
          {"coordinate_transformation_mode", std::string(call.flag(2) ? "align_corners" : "pytorch_half_pixel")}});
}

void upsample_nearest(OnnxCall& call, const char* /*op*/) {
  resize(call, {{"mode", std::string("nearest")},
                {"coordinate_transformation_mode", std::string("asymmetric")},
                {"nearest_mode", std::string("floor")}});
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
