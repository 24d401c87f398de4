// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/prepare.h"

#include <ATen/record_function.h>

namespace lockstep {

void use_channels_last(torch::nn::Module& net) {
  for (at::Tensor& parameter : net.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(to_channels_last(parameter.detach()));
  }
}

c10::Device device_of(const torch::nn::Module& net) {
  const std::vector<at::Tensor> parameters = net.parameters();
  return parameters.empty() ? c10::Device(c10::kCPU) : parameters.front().device();
}

void move_to(Batch& batch, const c10::Device& device) {
  for (at::Tensor* tensor : {&batch.data, &batch.target}) {
    if (tensor->defined()) *tensor = tensor->to(device, tensor->scalar_type(), /*non_blocking=*/true);
  }
}

at::Tensor to_channels_last(const at::Tensor& images) {
  if (images.dim() != 4) return images;
  // contiguous() would not change the strides of a single-channel image.
  return images.to(images.options(), /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::ChannelsLast);
}

void prepare_batch(Batch& batch, const c10::Device& device, bool channels_last) {
  RECORD_FUNCTION("lockstep::prepare_batch", c10::ArrayRef<const c10::IValue>());
  move_to(batch, device);
  if (channels_last) batch.data = to_channels_last(batch.data);
}

std::int64_t parameter_count(const torch::nn::Module& net) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : net.parameters()) count += parameter.numel();
  return count;
}

}  // namespace lockstep
