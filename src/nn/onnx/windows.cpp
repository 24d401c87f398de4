// SPDX-License-Identifier: Apache-2.0
// Operators on windows of an image: convolution, pooling, resizing.
#include <ATen/ops/_upsample_nearest_exact1d.h>
#include <ATen/ops/_upsample_nearest_exact2d.h>
#include <ATen/ops/_upsample_nearest_exact3d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/upsample_nearest1d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest3d.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "nn/onnx/rows.h"

namespace lockstep::nn::onnx {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes twice(Sizes pads, std::size_t dims) {
  if (pads.size() == 1) pads.resize(dims, pads.front());
  pads.insert(pads.end(), pads.begin(), pads.end());
  return pads;
}

Sizes all_of(Sizes numbers, std::size_t dims) {
  if (numbers.size() == 1) numbers.resize(dims, numbers.front());
  return numbers;
}

std::size_t spatial(const OnnxCall& call) { return static_cast<std::size_t>(call.rank(0)) - 2; }

/// Returns the sizes after batch and channels.
Sizes behind_channels(const Sizes& sizes) { return {sizes.begin() + 2, sizes.end()}; }

std::int64_t product(const Sizes& sizes) {
  std::int64_t all = 1;
  for (const std::int64_t each : sizes) all *= each;
  return all;
}

/// The windows of a pooling.
struct Pool {
  Sizes in, out, kernel, stride, pads, dilation;

  [[nodiscard]] std::size_t dims() const { return in.size(); }
  /// Returns how far the last window extends beyond the end. It becomes padding, since runtimes differ in ceil_mode.
  [[nodiscard]] std::int64_t beyond(std::size_t i) const {
    return (out[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - in[i] - pads[i];
  }
  [[nodiscard]] bool reaches_far() const {
    for (std::size_t i = 0; i < dims(); ++i) {
      if (beyond(i) >= kernel[i]) return true;
    }
    return false;
  }
  /// Returns the padding before each dimension, then the padding after each.
  [[nodiscard]] Sizes all_pads() const {
    Sizes all = pads;
    for (std::size_t i = 0; i < dims(); ++i) all.push_back(std::max<std::int64_t>(beyond(i), 0));
    return all;
  }
};

/// Adds pads of 0 for batch and channels to the pads of the last dimensions.
Sizes with_channels(Sizes pads) {
  pads.insert(pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2), 2, 0);
  pads.insert(pads.begin(), 2, 0);
  return pads;
}

/// poolNd(x, kernel, stride, padding, ...); average pooling has no dilation.
Pool pool_of(const OnnxCall& call, bool has_dilation) {
  Pool pool{.in = behind_channels(call.sizes(0)), .out = behind_channels(call.result_sizes())};
  const std::size_t dims = pool.dims();
  pool.kernel = all_of(call.integers(1), dims);
  pool.stride = call.integers(2).empty() ? pool.kernel : all_of(call.integers(2), dims);
  pool.pads = all_of(call.integers(3), dims);
  pool.dilation = has_dilation ? all_of(call.integers(4), dims) : Sizes(dims, 1);
  return pool;
}

/// Returns the divisor of each window's sum.
at::Tensor divisors(const Pool& pool, bool counts_pads) {
  at::Tensor all = at::ones({1, 1}, at::kFloat);
  for (std::size_t i = 0; i < pool.dims(); ++i) {
    at::Tensor line = at::zeros({pool.out[i]}, at::kFloat);
    for (std::int64_t k = 0; k < pool.out[i]; ++k) {
      const std::int64_t begin = k * pool.stride[i] - pool.pads[i];
      const std::int64_t end = std::min(begin + pool.kernel[i], pool.in[i] + pool.pads[i]);
      const std::int64_t inside = std::min(end, pool.in[i]) - std::max<std::int64_t>(begin, 0);
      line[k] = static_cast<double>(counts_pads ? end - begin : inside);
    }
    all = all.unsqueeze(-1) * line;
  }
  return all;
}

/// Returns window `k` of an adaptive pooling: its begin and its end.
std::pair<std::int64_t, std::int64_t> adaptive_window(std::int64_t k, std::int64_t in, std::int64_t out) {
  return {k * in / out, ((k + 1) * in + out - 1) / out};
}

/// Returns the window's size in each dimension if all windows of an adaptive pooling have the same size; else empty.
Sizes equal_windows(const OnnxCall& call, const Sizes& out) {
  Sizes windows;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t size = call.sizes(0).at(i + 2);
    if (size % out[i] != 0) return {};
    windows.push_back(size / out[i]);
  }
  return windows;
}

/// Returns a matrix [in, out]: multiplying by it computes the mean of each window.
at::Tensor means(std::int64_t in, std::int64_t out) {
  at::Tensor matrix = at::zeros({in, out}, at::kFloat);
  for (std::int64_t k = 0; k < out; ++k) {
    const auto [begin, end] = adaptive_window(k, in, out);
    matrix.select(1, k).slice(0, begin, end).fill_(1.0 / static_cast<double>(end - begin));
  }
  return matrix;
}

/// Converts positions in the whole tensor to positions in their channel.
std::string in_channel(OnnxCall& call, const std::string& positions) {
  return call.add("Mod", {positions, call.integers_of({product(behind_channels(call.sizes(0)))})});
}

/// Returns a kernel that copies each element of a window to its own channel: [channels * window, 1, window].
at::Tensor copies(std::int64_t channels, const Sizes& window, at::ScalarType type) {
  const std::int64_t count = product(window);
  Sizes shape = {channels * count, 1};
  shape.insert(shape.end(), window.begin(), window.end());
  at::Tensor kernel = at::zeros({channels * count, count}, type);
  for (std::int64_t i = 0; i < channels * count; ++i) kernel[i][i % count] = 1;
  return kernel.view(shape);
}

/// Returns a factor whose product with `in` is at least `out` in float32.
double factor_to(std::int64_t in, std::int64_t out, double factor) {
  auto given = static_cast<float>(factor);
  while (std::floor(given * static_cast<float>(in)) < static_cast<float>(out))
    given = std::nextafter(given, std::numeric_limits<float>::infinity());
  return given;
}

/// Returns the factor that libtorch computes positions with. In linear modes libtorch copies an input of equal size.
double factor_of(const std::string& mode, std::int64_t in, std::int64_t out, double given) {
  return mode == "linear" && in == out ? 1 : factor_to(in, out, given);
}

/// Resizes. The arguments starting at `factors_at` are the dimensions' factors, which determine positions if given.
void resize(OnnxCall& call, const std::string& mode, const OnnxAttributes& attributes, std::size_t factors_at) {
  const Sizes in = behind_channels(call.sizes(0));
  const Sizes out = behind_channels(call.result_sizes());
  if (!call.none(factors_at)) {
    at::Tensor factors = at::ones({call.rank(0)}, at::kFloat);
    for (std::size_t i = 0; i < out.size(); ++i)
      factors[static_cast<std::int64_t>(i) + 2] = factor_of(mode, in[i], out[i], call.number(factors_at + i));
    return call.give(call.add("Resize", {call.in(0), "", call.stored(factors)}, attributes));
  }
  const std::string head =
      call.add("Slice", {call.add("Shape", {call.in(0)}), call.integers_of({0}), call.integers_of({2})});
  const std::string target = call.add("Concat", {head, call.integers_of(out)}, {{"axis", std::int64_t{0}}});
  call.give(call.add("Resize", {call.in(0), "", "", target}, attributes));
}

}  // namespace

/// _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ...).
void convolution(OnnxCall& call, const char* /*op*/) {
  const std::size_t dims = spatial(call);
  if (call.rank(1) != call.rank(0)) call.refuse("its input has no batch dimension");
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

/// _convolution_mode(x, weight, bias, stride, "same" or "valid", dilation, groups).
void convolution_by_name(OnnxCall& call, const char* /*op*/) {
  const std::size_t dims = spatial(call);
  const Sizes dilation = all_of(call.integers(5), dims);
  Sizes pads(2 * dims, 0);
  for (std::size_t i = 0; i < dims && call.text(4) == "same"; ++i) {
    const std::int64_t all = dilation[i] * (call.sizes(1).at(i + 2) - 1);
    pads[i] = all / 2;
    pads[dims + i] = all - all / 2;
  }
  std::vector<std::string> inputs = {call.in(0), call.in(1)};
  if (!call.none(2)) inputs.push_back(call.in(2));
  call.give(call.add("Conv", inputs,
                     {{"strides", all_of(call.integers(3), dims)},
                      {"pads", pads},
                      {"dilations", dilation},
                      {"group", call.integer(6)}}));
}

/// max_poolNd(x, kernel, stride, padding, dilation, ceil_mode); ..._with_indices returns the positions as well.
void max_pool(OnnxCall& call, const char* /*op*/) {
  const Pool pool = pool_of(call, true);
  const std::size_t results = call.results();
  std::string x = call.in(0);
  Sizes pads = pool.all_pads();
  if (pool.reaches_far()) {  // ONNX requires padding smaller than a window
    if (results > 1) call.refuse("its last window is beyond the end, and its indices are used");
    const std::string least = call.constant(-std::numeric_limits<double>::infinity(), call.result_type());
    x = call.add("Pad", {x, call.integers_of(with_channels(pads)), least});
    pads.assign(pads.size(), 0);
  }
  const auto made = call.add_all(
      "MaxPool", {x},
      {{"kernel_shape", pool.kernel}, {"strides", pool.stride}, {"pads", pads}, {"dilations", pool.dilation}}, results);
  call.give(made[0]);
  if (results > 1) call.give(in_channel(call, made[1]), 1);
}

/// avg_poolNd(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor).
void average_pool(OnnxCall& call, const char* /*op*/) {
  const Pool pool = pool_of(call, false);
  if (!call.flag(4) && call.none(6)) {
    return call.give(call.add("AveragePool", {call.in(0)},
                              {{"kernel_shape", pool.kernel},
                               {"strides", pool.stride},
                               {"pads", twice(pool.pads, pool.dims())},
                               {"count_include_pad", call.flag(5) ? 1 : std::int64_t{0}}}));
  }
  const std::string padded = call.add("Pad", {call.in(0), call.integers_of(with_channels(pool.all_pads()))});
  const std::string mean = call.add("AveragePool", {padded}, {{"kernel_shape", pool.kernel}, {"strides", pool.stride}});
  const auto count = static_cast<double>(product(pool.kernel));
  const at::Tensor factors =
      call.none(6) ? count / divisors(pool, call.flag(5)) : at::full({}, count / call.number(6), at::kFloat);
  call.give(call.add("Mul", {mean, call.stored(factors)}));
}

/// Uses windows of one size if the input is a multiple of the output; else a matrix product for each dimension.
void adaptive_average_pool(OnnxCall& call, const char* /*op*/) {
  const Sizes out = all_of(call.integers(1), spatial(call));
  if (const Sizes windows = equal_windows(call, out); !windows.empty())
    return call.give(call.add("AveragePool", {call.in(0)}, {{"kernel_shape", windows}, {"strides", windows}}));
  const Sizes in = behind_channels(call.sizes(0));
  const std::size_t dims = out.size();
  std::string name = call.in(0);
  if (dims == 3) {
    const std::string flat = call.add("Reshape", {name, call.integers_of({0, 0, in[0], in[1] * in[2]})});
    name = call.add("MatMul", {call.stored(means(in[0], out[0]).t().contiguous()), flat});
    name = call.add("Reshape", {name, call.integers_of({0, 0, out[0], in[1], in[2]})});
  }
  if (dims > 1) name = call.add("MatMul", {call.stored(means(in[dims - 2], out[dims - 2]).t().contiguous()), name});
  call.give(call.add("MatMul", {name, call.stored(means(in.back(), out.back()))}));
}

/// If the windows differ in size, computes the maximum of each window, one dimension after another.
void adaptive_max_pool(OnnxCall& call, const char* /*op*/) {
  const Sizes out = all_of(call.integers(1), spatial(call));
  if (const Sizes windows = equal_windows(call, out); !windows.empty()) {
    const auto made = call.add_all("MaxPool", {call.in(0)}, {{"kernel_shape", windows}, {"strides", windows}}, 2);
    call.give(made[0]);
    return call.give(in_channel(call, made[1]), 1);
  }
  if (call.used(1)) call.refuse("its windows have different sizes, and their indices are requested");
  std::string name = call.in(0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    std::vector<std::string> parts;
    for (std::int64_t k = 0; k < out[i]; ++k) {
      const auto [begin, end] = adaptive_window(k, call.sizes(0).at(i + 2), out[i]);
      const std::string window =
          call.add("Slice", {name, call.integers_of({begin}), call.integers_of({end}), call.integers_of({axis})});
      parts.push_back(call.add("ReduceMax", {window}, {{"axes", Sizes{axis}}, {"keepdims", std::int64_t{1}}}));
    }
    name = call.add("Concat", parts, {{"axis", axis}});
  }
  call.give(name);
}

/// max_unpoolNd(x, positions, size, ...).
void max_unpool(OnnxCall& call, const char* /*op*/) {
  const Sizes out = behind_channels(call.result_sizes());
  const auto flat = [&](std::size_t i) { return call.add("Reshape", {call.in(i), call.integers_of({0, 0, -1})}); };
  const std::string head =
      call.add("Slice", {call.add("Shape", {call.in(0)}), call.integers_of({0}), call.integers_of({2})});
  const std::string shape = call.add("Concat", {head, call.integers_of({product(out)})}, {{"axis", std::int64_t{0}}});
  const std::string zeros = call.add("ConstantOfShape", {shape}, {{"value", at::zeros({1}, call.result_type())}});
  const std::string placed = call.add("ScatterElements", {zeros, flat(1), flat(0)}, {{"axis", std::int64_t{2}}});
  const std::string target = call.add("Concat", {head, call.integers_of(out)}, {{"axis", std::int64_t{0}}});
  call.give(call.add("Reshape", {placed, target}));
}

/// im2col(x, kernel, dilation, padding, stride): a convolution that copies elements.
void unfold(OnnxCall& call, const char* /*op*/) {
  const std::int64_t channels = call.sizes(0).at(1);
  const Sizes kernel = all_of(call.integers(1), 2);
  const std::string windows = call.add("Conv", {call.in(0), call.stored(copies(channels, kernel, call.result_type()))},
                                       {{"dilations", all_of(call.integers(2), 2)},
                                        {"pads", twice(call.integers(3), 2)},
                                        {"strides", all_of(call.integers(4), 2)},
                                        {"group", channels}});
  call.give(call.add("Reshape", {windows, call.integers_of({0, channels * product(kernel), -1})}));
}

/// col2im(x, size, kernel, dilation, padding, stride): the transpose of unfold()'s convolution.
void fold(OnnxCall& call, const char* /*op*/) {
  const Sizes out = behind_channels(call.result_sizes());
  const std::int64_t channels = call.result_sizes().at(1);
  const Sizes kernel = all_of(call.integers(2), 2), dilation = all_of(call.integers(3), 2);
  const Sizes pads = all_of(call.integers(4), 2), stride = all_of(call.integers(5), 2);
  Sizes shape = {0, channels * product(kernel)}, more;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t reach = out[i] + 2 * pads[i] - dilation[i] * (kernel[i] - 1) - 1;
    shape.push_back(reach / stride[i] + 1);
    more.push_back(reach % stride[i]);
  }
  call.give(call.add("ConvTranspose",
                     {call.add("Reshape", {call.in(0), call.integers_of(shape)}),
                      call.stored(copies(channels, kernel, call.result_type()))},
                     {{"dilations", dilation},
                      {"pads", twice(pads, 2)},
                      {"strides", stride},
                      {"output_padding", more},
                      {"group", channels}}));
}

/// upsample_linear1d(x, size, align_corners, factors ...); likewise bilinear2d, trilinear3d and bicubic2d.
void upsample_linear(OnnxCall& call, const char* op) {
  OnnxAttributes attributes = {
      {"mode", std::string(op)},
      {"coordinate_transformation_mode", std::string(call.flag(2) ? "align_corners" : "half_pixel")}};
  if (std::string_view(op) == "cubic") attributes.emplace_back("cubic_coeff_a", -0.75);
  if (call.flag(2)) return resize(call, op, attributes, call.count());  // aligned corners determine the factors
  resize(call, op, attributes, 3);
}

namespace {

/// Writes to each element its index along an axis. Repeated elements (stride 0) are stored once.
void number_along(const at::Tensor& tensor, std::int64_t axis) {
  at::Tensor stored = tensor;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.stride(d) == 0) stored = stored.narrow(d, 0, 1);
  }
  Sizes line(static_cast<std::size_t>(tensor.dim()), 1);
  line[static_cast<std::size_t>(axis)] = stored.size(axis);
  stored.copy_(at::arange(stored.size(axis), at::kFloat).view(line));
}

using Factors = std::vector<c10::optional<double>>;

at::Tensor resized(const at::Tensor& x, const Sizes& out, const Factors& factors, bool is_exact) {
  if (out.size() == 1)
    return is_exact ? at::_upsample_nearest_exact1d(x, out, factors[0]) : at::upsample_nearest1d(x, out, factors[0]);
  if (out.size() == 2) {
    return is_exact ? at::_upsample_nearest_exact2d(x, out, factors[0], factors[1])
                    : at::upsample_nearest2d(x, out, factors[0], factors[1]);
  }
  return is_exact ? at::_upsample_nearest_exact3d(x, out, factors[0], factors[1], factors[2])
                  : at::upsample_nearest3d(x, out, factors[0], factors[1], factors[2]);
}

/// Returns, for each new element along an axis, the index of the element that it copies. libtorch's own operator
/// computes the indices, because its rounding depends on the memory order of its argument.
at::Tensor nearest(const at::Tensor& numbers, std::int64_t axis, const Sizes& out, const Factors& factors,
                   bool is_exact) {
  number_along(numbers, axis);
  at::Tensor found = resized(numbers, out, factors, is_exact);
  for (std::int64_t d = found.dim() - 1; d >= 0; --d) {
    if (d != axis) found = found.select(d, 0);
  }
  return found.to(at::kLong);
}

bool is_each_several_times(const at::Tensor& chosen, std::int64_t in) {
  const std::int64_t out = chosen.numel();
  return out % in == 0 && chosen.equal(at::arange(out, at::kLong).div(out / in, "floor"));
}

}  // namespace

/// upsample_nearestNd(x, size, factors ...); likewise _upsample_nearest_exactNd. Unless every element is repeated the
/// same number of times, runtimes may round differently, so the indices are constants.
void upsample_nearest(OnnxCall& call, const char* op) {
  const Sizes in = behind_channels(call.sizes(0));
  const Sizes out = behind_channels(call.result_sizes());
  Factors factors;
  for (std::size_t i = 0; i < in.size(); ++i)
    factors.push_back(call.none(i + 2) ? c10::nullopt : c10::optional<double>(call.number(i + 2)));
  const at::Tensor numbers = call.empty_like(0);
  std::vector<at::Tensor> chosen;
  bool is_plain = true;
  for (std::size_t i = 0; i < in.size(); ++i) {
    chosen.push_back(nearest(numbers, static_cast<std::int64_t>(i) + 2, out, factors, *op != 0));
    is_plain = is_plain && is_each_several_times(chosen.back(), in[i]);
  }
  if (is_plain) {
    return resize(call, "nearest",
                  {{"mode", std::string("nearest")},
                   {"coordinate_transformation_mode", std::string("asymmetric")},
                   {"nearest_mode", std::string("floor")}},
                  call.count());
  }
  std::string name = call.in(0);
  for (std::size_t i = 0; i < in.size(); ++i)
    name = call.add("Gather", {name, call.stored(chosen[i])}, {{"axis", static_cast<std::int64_t>(i) + 2}});
  call.give(name);
}

}  // namespace lockstep::nn::onnx
