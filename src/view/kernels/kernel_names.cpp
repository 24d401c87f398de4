// SPDX-License-Identifier: Apache-2.0
#include "view/kernels/kernel_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

namespace lockstep::view {
namespace {

/// An operator that computes a convolution or a product, and the name of its kernel; empty if the kernel varies.
struct Computing {
  LayerKind kind;
  KernelMaker maker;
  std::string_view kernel;
};

const std::unordered_map<std::string_view, Computing>& computing() {
  using enum LayerKind;
  using enum KernelMaker;
  static const std::unordered_map<std::string_view, Computing> operators = {
      {"lockstep::winograd_convolution", {kConvolution, kLockstep, "Winograd"}},
      {"lockstep::direct_convolution", {kConvolution, kLockstep, "direct"}},
      {"lockstep::depthwise_convolution", {kConvolution, kLockstep, "depthwise"}},
      {"lockstep::thin_convolution", {kConvolution, kLockstep, "one channel"}},
      {"lockstep::linear_product", {kProduct, kLockstep, "direct"}},
      {"aten::mkldnn_convolution", {kConvolution, kOneDnn, "oneDNN"}},
      {"aten::thnn_conv2d", {kConvolution, kAten, "im2col"}},
      {"aten::_slow_conv2d_forward", {kConvolution, kAten, "im2col"}},
      {"aten::slow_conv_dilated2d", {kConvolution, kAten, "im2col"}},
      {"aten::_nnpack_spatial_convolution", {kConvolution, kAten, "NNPACK"}},
      {"aten::addmm", {kProduct, kBlas, ""}},
      {"aten::mm", {kProduct, kBlas, ""}},
      {"aten::bmm", {kProduct, kBlas, ""}},
      {"aten::baddbmm", {kProduct, kBlas, ""}},
  };
  return operators;
}

/// Names of layers for which the operator's name, with spaces instead of underscores, is not used.
const std::unordered_map<std::string_view, std::string_view>& layer_names() {
  static const std::unordered_map<std::string_view, std::string_view> names = {
      {"lockstep::batch_norm_relu", "norm + ReLU"},
      {"lockstep::linear_relu", "linear + ReLU"},
      {"lockstep::relu", "ReLU"},
      {"lockstep::scale_shift", "scale + shift"},
      {"aten::relu", "ReLU"},
      {"aten::relu_", "ReLU"},
      {"aten::max_pool2d", "max pool"},
      {"aten::adaptive_avg_pool2d", "average pool"},
      {"aten::scaled_dot_product_attention", "attention"},
  };
  return names;
}

/// Returns true for libtorch's operators that read their inputs at least once, and write as much as the first input.
bool moves_its_input(std::string_view name) {
  static const std::set<std::string_view> movers = {
      "aten::batch_norm", "aten::layer_norm", "aten::relu",       "aten::relu_", "aten::dropout",
      "aten::add",        "aten::add_",       "aten::sub",        "aten::mul",   "aten::mul_",
      "aten::div",        "aten::sigmoid",    "aten::tanh",       "aten::silu",  "aten::gelu",
      "aten::leaky_relu", "aten::softmax",    "aten::contiguous", "aten::clone", "aten::cat",
      "aten::log_softmax"};
  return movers.contains(name) || name.starts_with("lockstep::");
}

/// Returns true for operators that write less than their first input, or nothing, or an amount that their inputs do not
/// show.
bool only_reads(std::string_view name) {
  return name == "lockstep::loss" || name == "lockstep::resize" || name == "aten::max_pool2d" ||
         name == "aten::adaptive_avg_pool2d" || name == "aten::avg_pool2d";
}

bool is_tensor(const CallInput& input) { return !input.type.empty() && input.type != "numbers"; }

const CallInput* tensor_of(const ProfiledCall& call, std::size_t place) {
  for (const CallInput& input : call.inputs) {
    if (is_tensor(input) && place-- == 0) return &input;
  }
  return nullptr;
}

double count_of(const CallInput& input) {
  return std::accumulate(input.sizes.begin(), input.sizes.end(), 1.0,
                         [](double product, std::int64_t size) { return product * static_cast<double>(size); });
}

double bytes_of(const std::string& type) { return type == "bfloat16" || type == "float16" ? 2 : 4; }

std::string shape_text(const std::vector<std::int64_t>& sizes) { return fmt::format("{}", fmt::join(sizes, "x")); }

/// The geometry of a convolution, with [rows, columns] for each value.
struct Geometry {
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> padding = {1, 1};
  std::array<std::int64_t, 2> dilation = {1, 1};
};

std::array<std::int64_t, 2> pair_of(const std::vector<std::int64_t>& numbers, std::array<std::int64_t, 2> otherwise) {
  if (numbers.empty()) return otherwise;
  return {numbers[0], numbers.size() > 1 ? numbers[1] : numbers[0]};
}

/// Lockstep's kernels have six numbers in one list; libtorch's operators have a list for each value. The Winograd
/// kernel and the kernel for a single channel have no list, because they always compute a 3x3 convolution with stride 1
/// and padding 1.
Geometry geometry_of(const LayerCalls& calls) {
  std::vector<std::vector<std::int64_t>> lists;
  for (const ProfiledCall* call : calls) {
    if (call->name.starts_with("lockstep::direct") || call->name.starts_with("lockstep::depthwise")) {
      const std::vector<std::int64_t>& six = call->inputs.empty() ? lists.emplace_back() : call->inputs.back().sizes;
      if (six.size() == 6) return {{six[0], six[1]}, {six[2], six[3]}, {six[4], six[5]}};
    }
    if (call->name != "aten::convolution" || call->inputs.size() < 6) continue;
    return {pair_of(call->inputs[3].sizes, {1, 1}), pair_of(call->inputs[4].sizes, {0, 0}),
            pair_of(call->inputs[5].sizes, {1, 1})};
  }
  return {};
}

std::int64_t results(std::int64_t size, std::int64_t kernel, const Geometry& geometry, std::size_t at) {
  return (size + 2 * geometry.padding[at] - geometry.dilation[at] * (kernel - 1) - 1) / geometry.stride[at] + 1;
}

std::string stride_text(const std::array<std::int64_t, 2>& stride) {
  if (stride[0] == 1 && stride[1] == 1) return "";
  return stride[0] == stride[1] ? fmt::format(" /{}", stride[0]) : fmt::format(" /{}x{}", stride[0], stride[1]);
}

/// Fills in the description of a convolution of [N, in, H, W] with [out, in / groups, rows, columns].
void describe_convolution(KernelRow& row, const LayerCalls& calls, const std::vector<std::int64_t>& input,
                          const std::vector<std::int64_t>& weight) {
  const Geometry geometry = geometry_of(calls);
  const bool is_grouped = weight[1] != input[1];
  row.in = input[1];
  row.out = weight[0];
  row.is_plain_3x3 = weight[2] == 3 && weight[3] == 3 && geometry.stride[0] == 1 && geometry.stride[1] == 1 &&
                     geometry.dilation[0] == 1 && geometry.padding[0] == 1 && !is_grouped;
  row.layer = fmt::format("{} {}x{}{}{}, {} to {}", is_grouped ? "grouped conv" : "conv", weight[2], weight[3],
                          stride_text(geometry.stride),
                          geometry.dilation[0] == 1 ? "" : fmt::format(" dilation {}", geometry.dilation[0]),
                          shape_text(input), row.out);
  const double outputs = static_cast<double>(input[0] * row.out) *
                         static_cast<double>(results(input[2], weight[2], geometry, 0)) *
                         static_cast<double>(results(input[3], weight[3], geometry, 1));
  row.forward.bytes = bytes_of(row.type) * outputs;
}

std::string plain_name(std::string_view name) {
  if (const auto found = layer_names().find(name); found != layer_names().end()) return std::string(found->second);
  const std::size_t scope = name.rfind("::");
  std::string words(scope == std::string_view::npos ? name : name.substr(scope + 2));
  std::replace(words.begin(), words.end(), '_', ' ');
  words.erase(0, words.find_first_not_of(' '));
  words.erase(words.find_last_not_of(' ') + 1);
  return words;
}

/// Fills in the description of a product of rows [.., in] with a weight [out, in], or of two matrices.
void describe_product(KernelRow& row, const ProfiledCall& outer) {
  const bool is_layer = outer.name.find("linear") != std::string::npos;
  const bool has_bias_first = outer.name == "aten::addmm" || outer.name == "aten::baddbmm";
  const CallInput* left = tensor_of(outer, has_bias_first ? 1 : 0);
  const CallInput* right = tensor_of(outer, has_bias_first ? 2 : 1);
  if (left == nullptr || right == nullptr || left->sizes.empty() || right->sizes.empty()) {
    row.layer = plain_name(outer.name);
    return;
  }
  row.in = left->sizes.back();
  row.out = is_layer ? right->sizes.front() : right->sizes.back();
  // In some versions, torch::nn::Linear calls the product directly, with weights that belong to a module.
  const std::string name = is_layer ? plain_name(outer.name) : outer.layer.empty() ? "product" : "linear";
  row.layer = fmt::format("{}, {} to {}", name, shape_text(left->sizes), row.out);
  row.forward.bytes = bytes_of(row.type) * count_of(*left) / static_cast<double>(std::max<std::int64_t>(row.in, 1)) *
                      static_cast<double>(row.out);
}

void describe_other(KernelRow& row, const ProfiledCall& outer) {
  row.layer = plain_name(outer.name);
  const bool is_pooled = outer.name == "lockstep::batch_norm_relu" && outer.inputs.size() > 2 &&
                         outer.inputs[2].sizes == std::vector<std::int64_t>{1};
  if (is_pooled) row.layer += " + pool";
  if (outer.name.find("norm") != std::string::npos) row.kind = LayerKind::kNorm;
  const CallInput* input = tensor_of(outer, 0);
  if (input == nullptr) return;
  if (!input->sizes.empty()) row.layer += ", " + shape_text(input->sizes);
  if (input->sizes.size() > 1) row.in = row.kind == LayerKind::kNorm ? input->sizes[1] : input->sizes.back();
  if (!moves_its_input(outer.name) && !only_reads(outer.name)) return;
  const double written = only_reads(outer.name) ? 0 : is_pooled ? 0.25 : 1;
  row.forward.bytes = bytes_of(input->type) * count_of(*input) * written;
}

/// Returns the bytes that the outermost operator reads.
double bytes_read(const ProfiledCall& outer, const std::string& type) {
  double bytes = 0;
  for (const CallInput& input : outer.inputs) {
    if (is_tensor(input)) bytes += count_of(input) * bytes_of(type.empty() ? input.type : type);
  }
  return bytes;
}

std::string instructions_of(const KernelRow& row, const KernelMachine& machine) {
  const bool is_bfloat16 = row.type == "bfloat16";
  const bool multiplies = row.kind == LayerKind::kConvolution || row.kind == LayerKind::kProduct;
  switch (row.maker) {
    case KernelMaker::kLockstep:
      // Only these two kernels have bfloat16 products; the others compute in float32 internally.
      if (is_bfloat16 && machine.bfloat16_vectors && (row.kernel.starts_with("Winograd") || row.kernel == "direct")) {
        return machine.lockstep_vectors + " bf16";
      }
      return machine.lockstep_vectors;
    case KernelMaker::kOneDnn:
      if (is_bfloat16 && multiplies && machine.bfloat16_tiles) return "AMX";
      if (is_bfloat16 && multiplies && machine.bfloat16_vectors) return "AVX-512 bf16";
      return machine.avx512 ? "AVX-512" : "";
    case KernelMaker::kBlas:
      return machine.blas_kernels;
    case KernelMaker::kAten:
      return machine.aten_vectors;
  }
  return "";
}

/// In libtorch, BLAS multiplies float32, and oneDNN multiplies bfloat16 if the processor has AVX-512; otherwise
/// libtorch's own loops multiply.
void choose_product(KernelRow& row, const KernelMachine& machine) {
  const bool is_16_bit = row.type == "bfloat16" || row.type == "float16";
  row.maker = !is_16_bit ? KernelMaker::kBlas : machine.avx512 ? KernelMaker::kOneDnn : KernelMaker::kAten;
  row.kernel = !is_16_bit ? machine.blas : machine.avx512 ? "oneDNN" : "ATen";
}

/// Returns the operator that does the work: the first known operator, else the outermost.
const ProfiledCall& computing_call(const LayerCalls& calls) {
  const auto found = std::find_if(calls.begin(), calls.end(),
                                  [](const ProfiledCall* call) { return computing().contains(call->name); });
  return found == calls.end() ? *calls.front() : **found;
}

std::string type_of(const ProfiledCall& call) {
  for (const CallInput& input : call.inputs) {
    if (input.type.starts_with("float") || input.type == "bfloat16") return input.type;
  }
  return "";
}

/// Sets the row's kernel; `row.type` must be set.
void choose_kernel(KernelRow& row, const LayerCalls& calls, const KernelMachine& machine) {
  const ProfiledCall& outer = *calls.front();
  const ProfiledCall& computed = computing_call(calls);
  const auto known = computing().find(computed.name);
  if (known == computing().end()) {
    const bool is_ours = outer.name.starts_with("lockstep::");
    row.maker = is_ours ? KernelMaker::kLockstep : KernelMaker::kAten;
    row.kernel = is_ours ? "fused" : "ATen";
    return;
  }
  row.kind = known->second.kind;
  row.maker = known->second.maker;
  row.kernel = known->second.kernel;
  if (row.kernel == "Winograd" && computed.inputs.size() > 2 && !computed.inputs[2].sizes.empty()) {
    row.kernel += fmt::format(" {0}x{0}", computed.inputs[2].sizes.front());
  }
  if (row.kernel.empty()) choose_product(row, machine);
}

}  // namespace

KernelRow describe_layer(const LayerCalls& calls, const KernelMachine& machine) {
  const ProfiledCall& outer = *calls.front();
  const ProfiledCall& computed = computing_call(calls);
  KernelRow row{.type = type_of(computed)};
  choose_kernel(row, calls, machine);
  const CallInput* input = tensor_of(outer, 0);
  const CallInput* weight = tensor_of(outer, 1);
  const bool is_image = input != nullptr && weight != nullptr && input->sizes.size() == 4 && weight->sizes.size() == 4;
  if (row.kind == LayerKind::kConvolution && is_image) {
    describe_convolution(row, calls, input->sizes, weight->sizes);
  } else if (row.kind == LayerKind::kProduct) {
    describe_product(row, outer);
  } else {
    describe_other(row, outer);
  }
  const bool multiplies = row.kind == LayerKind::kConvolution || row.kind == LayerKind::kProduct;
  const bool is_known = multiplies || moves_its_input(outer.name) || only_reads(outer.name);
  if (is_known) row.forward.bytes += bytes_read(outer, multiplies ? row.type : "");
  row.backward.bytes = row.forward.bytes;  // it writes the gradients of the input and the weight
  row.instructions = instructions_of(row, machine);
  return row;
}

}  // namespace lockstep::view
