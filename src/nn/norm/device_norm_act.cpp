// SPDX-License-Identifier: Apache-2.0
#include "nn/norm/device_norm_act.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "lockstep/nn/plain_operators.h"
#include "nn/norm/norm_act.cuh"
#include "nn/vector/kernel_tensors.h"

namespace lockstep {
extern const char* const norm_act_source;  // the text of norm_act.cuh, which the build embeds
}

namespace lockstep::nn::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// These constants must equal those in the kernels.
constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kVector = 8;
constexpr std::int64_t kFinishChannels = 32;

constexpr std::int64_t kMostBlocks = 1024;   // maximum number of blocks that share a sum: enough for any GPU
constexpr std::int64_t kPixelsOfThread = 8;  // minimum number of pixels that a thread sums

std::int64_t up(std::int64_t count, std::int64_t step) { return (count + step - 1) / step; }

float* floats(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }
void* bytes(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

bool is_vector_on(c10::Device device, const at::Tensor& tensor) {
  return tensor.defined() && tensor.device() == device && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

/// One call to the kernels: their arguments, and the number of blocks.
class Call {
 public:
  Call(tensor::DeviceKernels& kernels, const at::Tensor& input, bool pool)
      : kernels_(kernels),
        pool_(pool),
        lanes_(input.size(1) / kVector),
        type_(input.scalar_type() == at::kFloat ? "float32" : "bfloat16") {
    with.x = input.data_ptr();
    with.images = static_cast<unsigned>(input.size(0));
    with.channels = static_cast<unsigned>(input.size(1));
    with.height = static_cast<unsigned>(input.size(2));
    with.width = static_cast<unsigned>(input.size(3));
  }

  NormActDevice with{};

  /// Sums over pixels or windows, "moments" or "backward_sums", and runs the kernel that finishes them.
  void sum(const std::string& name, const char* finish, std::int64_t items) {
    const std::int64_t rows = kThreads / std::min(lanes_, kThreads);
    const std::int64_t blocks = std::clamp<std::int64_t>(items / (rows * kPixelsOfThread), 1, kMostBlocks);
    const at::Tensor partial = at::empty({blocks, 2, with.channels}, like_);
    with.blocks = static_cast<unsigned>(blocks);
    with.partial = floats(partial);
    launch(name + "_" + type_,
           {.x = with.blocks, .y = static_cast<unsigned>(up(lanes_, kThreads)), .threads = kThreads});
    launch(finish, {.x = static_cast<unsigned>(up(with.channels, kFinishChannels)), .threads = kThreads});
  }

  /// Runs a kernel with one thread for 8 channels of each pixel or window.
  void map(const std::string& name, std::int64_t items) {
    launch(name + "_" + type_, {.x = static_cast<unsigned>(up(items * lanes_, kThreads)), .threads = kThreads});
  }

  void allocate_like(const at::TensorOptions& options) { like_ = options; }
  [[nodiscard]] std::int64_t pixels() const { return std::int64_t{with.images} * with.height * with.width; }
  /// Returns the number of windows, including partial windows of an odd last row or column.
  [[nodiscard]] std::int64_t windows() const {
    return !pool_ ? pixels() : std::int64_t{with.images} * up(with.height, 2) * up(with.width, 2);
  }
  [[nodiscard]] std::string name(const char* pass) const { return !pool_ ? pass : std::string(pass) + "_pool"; }

 private:
  void launch(const std::string& kernel, const tensor::KernelGrid& grid) {
    kernels_.launch(kernel.c_str(), grid, &with);
  }

  tensor::DeviceKernels& kernels_;
  bool pool_;
  std::int64_t lanes_;
  const char* type_;
  at::TensorOptions like_;
};

/// The arguments of forward, besides the tensors that autograd tracks.
struct Arguments {
  tensor::DeviceKernels& kernels;
  const BatchNormCall& call;
  double momentum;
  bool pool;
};

at::Tensor run_forward(const Arguments& arguments, const at::Tensor& input, const NormActAdded& added,
                       const at::Tensor& rows) {
  Call call(arguments.kernels, input, arguments.pool);
  call.allocate_like(rows.options());
  call.with.residual = bytes(added.residual);
  call.with.rows = floats(rows);
  call.with.weight = floats(arguments.call.weight);
  call.with.bias = floats(arguments.call.bias);
  call.with.input_bias = floats(added.input_bias);
  call.with.running_mean = floats(arguments.call.running_mean);
  call.with.running_var = floats(arguments.call.running_var);
  call.with.momentum = arguments.momentum;
  call.with.eps = arguments.call.options.eps();
  call.sum("moments", "finish_moments_of_channels", call.pixels());
  const std::int64_t by = arguments.pool ? 2 : 1;
  at::Tensor out = at::empty({input.size(0), input.size(1), input.size(2) / by, input.size(3) / by},
                             input.options().memory_format(at::MemoryFormat::ChannelsLast));
  call.with.out = out.data_ptr();
  call.map(call.name("forward"), call.windows());
  return out;
}

class DeviceNormAct : public torch::autograd::Function<DeviceNormAct> {
 public:
  /// `followed`: input, weight and bias.
  static at::Tensor forward(AutogradContext* context, const at::TensorList& followed,
                            const c10::optional<at::Tensor>& residual, const c10::optional<at::Tensor>& input_bias,
                            const Arguments* arguments) {
    const at::Tensor& input = followed[0];
    const NormActAdded added{residual ? *residual : at::Tensor(), input_bias ? *input_bias : at::Tensor()};
    const at::Tensor rows = at::empty({4, input.size(1)}, arguments->call.weight.options().requires_grad(false));
    context->save_for_backward({input, rows, added.residual});
    context->saved_data["kernels"] = reinterpret_cast<std::int64_t>(&arguments->kernels);
    context->saved_data["pool"] = arguments->pool;
    context->saved_data["input_bias"] = added.input_bias.defined();
    return run_forward(*arguments, input, added, rows);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuse_second_derivative("fused batch norm");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& rows = saved[1];
    const at::Tensor grad = grads[0].to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    auto& kernels = *reinterpret_cast<tensor::DeviceKernels*>(context->saved_data["kernels"].toInt());
    Call call(kernels, input, context->saved_data["pool"].toBool());
    call.allocate_like(rows.options());
    const at::Tensor factors = at::empty({3, input.size(1)}, rows.options());
    const at::Tensor dx = at::empty_like(input);
    const at::Tensor dresidual = saved[2].defined() ? at::empty_like(input) : at::Tensor();
    const auto vector = [&](bool wanted) { return wanted ? at::empty({input.size(1)}, rows.options()) : at::Tensor(); };
    const at::Tensor dweight = vector(true);
    const at::Tensor dbias = vector(true);
    const at::Tensor dinput_bias = vector(context->saved_data["input_bias"].toBool());
    call.with.residual = bytes(saved[2]);
    call.with.rows = floats(rows);
    call.with.grad = grad.data_ptr();
    call.with.by = floats(factors);
    call.with.dweight = floats(dweight);
    call.with.dbias = floats(dbias);
    call.with.dinput_bias = floats(dinput_bias);
    call.with.dx = dx.data_ptr();
    call.with.dresidual = bytes(dresidual);
    call.sum(call.name("backward_sums"), "finish_backward_of_channels", call.windows());
    call.map(call.name("backward"), call.windows());
    return {dx, dweight, dbias, dresidual, dinput_bias, at::Tensor()};
  }
};

bool is_computed(const at::Tensor& input, const BatchNormCall& call, const NormAct& what) {
  const bool fits = input.dim() == 4 && input.device().is_cuda() && input.size(1) % kVector == 0 &&
                    input.is_contiguous(at::MemoryFormat::ChannelsLast) &&
                    (input.scalar_type() == at::kFloat || input.scalar_type() == at::kBFloat16) &&
                    input.numel() / kVector < std::numeric_limits<std::int32_t>::max();
  if (!fits || uses_plain_operators() || !call.training || what.dropout > 0) return false;
  for (const at::Tensor* vector : {&call.weight, &call.bias}) {
    if (!is_vector_on(input.device(), *vector)) return false;
  }
  if (call.running_mean.defined() &&
      !(is_vector_on(input.device(), call.running_mean) && is_vector_on(input.device(), call.running_var))) {
    return false;
  }
  return input.size(0) * input.size(2) * input.size(3) >= 2 &&
         (!what.pool || (input.size(2) >= 2 && input.size(3) >= 2));
}

}  // namespace

tensor::DeviceKernels* norm_act_kernels(const at::Tensor& input, const BatchNormCall& call, const NormAct& what) {
  if (!is_computed(input, call, what)) return nullptr;
  return tensor::device_kernels(
      {.name = "norm_act.cuh", .text = norm_act_source, .before = "#define LOCKSTEP_KERNELS 1\n"});
}

at::Tensor device_norm_act(tensor::DeviceKernels& kernels, const at::Tensor& input, const BatchNormCall& call,
                           const NormAct& what, const NormActAdded& added) {
  RECORD_FUNCTION("lockstep::batch_norm_relu", std::vector<c10::IValue>({input, call.weight, std::int64_t{what.pool}}));
  const Arguments arguments{.kernels = kernels, .call = call, .momentum = count_batch(call), .pool = what.pool};
  const std::array<at::Tensor, 3> followed = {input, call.weight, call.bias};
  const auto if_any = [](const at::Tensor& tensor) {
    return tensor.defined() ? c10::optional<at::Tensor>(tensor) : c10::nullopt;
  };
  return DeviceNormAct::apply(at::TensorList(followed), if_any(added.residual), if_any(added.input_bias), &arguments);
}

}  // namespace lockstep::nn::detail
