// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/norm_act.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/plain_operators.h"
#include "nn/norm/device_norm_act.h"
#include "nn/norm/fused_norm_act.h"

namespace lockstep::nn {

at::Tensor BatchNormReLU2dImpl::forward(const at::Tensor& input) { return after(input, {}); }

at::Tensor BatchNormReLU2dImpl::forward_with_residual(const at::Tensor& input, const at::Tensor& residual) {
  if (then_.dropout > 0 || then_.pool) {
    throw UsageError("a residual can be added only if neither dropout nor pooling follows the batch norm");
  }
  return after(input, residual);
}

detail::BatchNormCall BatchNormReLU2dImpl::call() {
  return {.weight = weight,
          .bias = bias,
          .running_mean = running_mean,
          .running_var = running_var,
          .num_batches_tracked = num_batches_tracked,
          .options = options,
          .training = is_training()};
}

bool BatchNormReLU2dImpl::is_synced() const { return statistics_sync() && statistics_sync()->replicas() > 1; }

at::Tensor BatchNormReLU2dImpl::after(const at::Tensor& input, const at::Tensor& residual) {
  _check_input_dim(input);
  const detail::BatchNormCall call = this->call();
  const detail::NormAct what{.dropout = then_.dropout, .pool = then_.pool};
  const bool fits = !residual.defined() || (residual.sizes() == input.sizes() && residual.device() == input.device());
  if (!is_synced() && fits) {
    const auto added = [&] {
      return residual.defined() ? residual.to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast)
                                : residual;
    };
    if (detail::can_fuse_norm_act(input, call, what)) {
      return detail::fused_norm_act(input, call, detail::count_batch(call), what, added());
    }
    if (tensor::DeviceKernels* kernels = detail::norm_act_kernels(input, call, what)) {
      return detail::device_norm_act(*kernels, input, call, what, {.residual = added()});
    }
  }
  at::Tensor out = detail::batch_norm(input, call, statistics_sync());
  if (residual.defined()) out = out + residual.to(out.scalar_type());
  if (then_.dropout > 0) out = at::dropout(out, then_.dropout, is_training());
  out = at::relu(out);
  return then_.pool ? at::max_pool2d(out, {2, 2}) : out;
}

at::Tensor BatchNormReLU2dImpl::forward_after(Conv2dImpl& conv, const at::Tensor& input) {
  const bool leaves_bias = conv.bias.defined() && conv.bias.scalar_type() == at::kFloat && conv.bias.is_contiguous() &&
                           input.is_cuda() && is_training() && !is_synced() && !uses_plain_operators();
  if (!leaves_bias) return forward(conv.forward(input));
  const at::Tensor images = conv.forward_without_bias(input);
  const detail::BatchNormCall call = this->call();
  const detail::NormAct what{.dropout = then_.dropout, .pool = then_.pool};
  if (tensor::DeviceKernels* kernels = detail::norm_act_kernels(images, call, what)) {
    return detail::device_norm_act(*kernels, images, call, what, {.input_bias = conv.bias});
  }
  return forward(images + conv.bias.to(images.scalar_type()).view({1, -1, 1, 1}));
}

at::Tensor forward_layers(torch::nn::SequentialImpl& layers, const at::Tensor& input) {
  at::Tensor value = input;
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    auto* conv = dynamic_cast<Conv2dImpl*>(layer->ptr().get());
    auto* norm = conv != nullptr && layer + 1 != layers.end()
                     ? dynamic_cast<BatchNormReLU2dImpl*>((layer + 1)->ptr().get())
                     : nullptr;
    if (norm == nullptr) {
      value = layer->forward<at::Tensor>(value);
    } else {
      value = norm->forward_after(*conv, value);
      ++layer;
    }
  }
  return value;
}

void BatchNormReLU2dImpl::pretty_print(std::ostream& stream) const {
  detail::print(stream, 2, options);
  if (then_.dropout > 0) stream << fmt::format(" + Dropout({})", then_.dropout);
  stream << " + ReLU" << (then_.pool ? " + MaxPool2d(2)" : "");
}

void BatchNormReLU2dImpl::share_parameter(const char* name, at::Tensor& target, const at::Tensor& source) {
  parameters_[name] = source;
  target = source;
}

// A tensor in the module's buffer dictionary cannot be replaced, so it is pointed at the memory of `source` instead.
void BatchNormReLU2dImpl::share_buffer(at::Tensor& target, const at::Tensor& source) { target.set_data(source); }

}  // namespace lockstep::nn
