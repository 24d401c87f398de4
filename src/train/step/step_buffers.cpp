// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_buffers.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>

namespace lockstep::train {

void StepBuffers::sync() {
  const StepClock::Stay communicates(clock_, view::StepPart::kExposed);
  if (!synced_) model_->sync_buffers();
  synced_ = true;
}

void StepBuffers::begin(bool keeps) {
  synced_ = false;
  if (!keeps) return;
  kept_ = floating();
  for (auto& [name, buffer] : kept_) buffer = buffer.detach().clone();
}

void StepBuffers::restore() {
  if (kept_.empty()) return;
  sync();
  const NamedTensors buffers = floating();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const at::Tensor& buffer = buffers[i].second;
    buffer.copy_(at::where(at::isfinite(buffer), buffer, kept_[i].second));
  }
  synced_ = false;  // the other replicas of this rank still have the earlier values
}

NamedTensors StepBuffers::floating() const {
  NamedTensors buffers = named_buffers_of(model_->module().net());
  std::erase_if(buffers, [](const auto& one) { return !one.second.is_floating_point(); });
  return buffers;
}

}  // namespace lockstep::train
