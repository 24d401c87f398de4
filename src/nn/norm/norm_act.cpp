// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/norm_act.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "nn/norm/fused_norm_act.h"

namespace lockstep::nn {

at::Tensor BatchNormReLU2dImpl::forward(const at::Tensor& input) { return after(input, {}); }

at::Tensor BatchNormReLU2dImpl::forward_with_residual(const at::Tensor& input, const at::Tensor& residual) {
  if (then_.dropout > 0 || then_.pool) {
    throw UsageError("a residual is added where neither dropout nor pooling follows the batch norm");
  }
  return after(input, residual);
}

at::Tensor BatchNormReLU2dImpl::after(const at::Tensor& input, const at::Tensor& residual) {
  _check_input_dim(input);
  const detail::BatchNormCall call{.weight = weight,
                                   .bias = bias,
                                   .running_mean = running_mean,
                                   .running_var = running_var,
                                   .num_batches_tracked = num_batches_tracked,
                                   .options = options,
                                   .training = is_training()};
  const detail::NormAct what{.dropout = then_.dropout, .pool = then_.pool};
  const bool synced = statistics_sync() && statistics_sync()->replicas() > 1;
  const bool fits = !residual.defined() || (residual.sizes() == input.sizes() && residual.device() == input.device());
  if (!synced && fits && detail::can_fuse_norm_act(input, call, what)) {
    at::Tensor added = residual;
    if (added.defined()) added = added.to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    return detail::fused_norm_act(input, call, detail::count_batch(call), what, added);
  }
  at::Tensor out = detail::batch_norm(input, call, statistics_sync());
  if (residual.defined()) out = out + residual.to(out.scalar_type());
  if (then_.dropout > 0) out = at::dropout(out, then_.dropout, is_training());
  out = at::relu(out);
  return then_.pool ? at::max_pool2d(out, {2, 2}) : out;
}

void BatchNormReLU2dImpl::pretty_print(std::ostream& stream) const {
  detail::print(stream, 2, options);
  if (then_.dropout > 0) stream << fmt::format(" + Dropout({})", then_.dropout);
  stream << " + ReLU" << (then_.pool ? " + MaxPool2d(2)" : "");
}

void BatchNormReLU2dImpl::share_parameter(const char* name, at::Tensor& mine, const at::Tensor& theirs) {
  parameters_[name] = theirs;
  mine = theirs;
}

// The dictionary of buffers is not open to us: the tensor stays another object and gets the other's memory.
void BatchNormReLU2dImpl::share_buffer(at::Tensor& mine, const at::Tensor& theirs) { mine.set_data(theirs); }

}  // namespace lockstep::nn
