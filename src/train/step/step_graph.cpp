// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_graph.h"

#include <c10/util/Exception.h>

#include <exception>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/random.h"

namespace lockstep {
namespace {

/// True where both are undefined, or have the same shape, dtype, memory order and device.
bool alike(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type() &&
         a.device() == b.device();
}

at::Tensor clone_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; }

void copy_into(const at::Tensor& mine, const at::Tensor& theirs) {
  if (mine.defined()) mine.copy_(theirs, /*non_blocking=*/true);
}

}  // namespace

StepGraph::StepGraph(NamedTensors parameters, Compute compute, std::unique_ptr<tensor::DeviceGraph> graph)
    : parameters_(std::move(parameters)), compute_(std::move(compute)), graph_(std::move(graph)) {
  if (!graph_) fallback_ = "this build of Lockstep has no CUDA";
}

at::Tensor StepGraph::run(const Batch& batch, std::uint64_t seed) {
  const bool warm = steps_++ >= kWarmUp;
  if (warm && !recorded_ && fallback_.empty() && !batch.extra.has_value()) record(batch, seed);
  if (recorded_ && fits(batch)) return replay(batch, seed);
  seed_all(seed);
  const std::shared_ptr<void> stream = graph_ ? graph_->enter() : nullptr;
  return compute_(batch);
}

bool StepGraph::fits(const Batch& batch) const {
  return !batch.extra.has_value() && batch.size == batch_.size && alike(batch.data, batch_.data) &&
         alike(batch.target, batch_.target);
}

void StepGraph::record(const Batch& batch, std::uint64_t seed) {
  batch_ = batch;
  batch_.data = clone_of(batch.data);
  batch_.target = clone_of(batch.target);
  drop_gradients();
  seed_all(seed);  // not while it is recorded: the generator then belongs to the graph
  try {
    graph_->record([this] { loss_ = compute_(batch_); });
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;  // it has its own advice
  } catch (const std::exception& error) {
    // The allocator and the random generator belong to the broken recording, so a later step would be wrong.
    throw UsageError("the step cannot be recorded as a CUDA graph: " + text::first_line(error.what()),
                     "leave out cuda_graph, or what reads a number back from the GPU in forward and loss");
  }
  for (const auto& item : parameters_) gradients_.push_back(item.second.grad());
  recorded_ = true;
}

void StepGraph::drop_gradients() {
  for (const auto& item : parameters_) item.second.mutable_grad() = at::Tensor();
}

at::Tensor StepGraph::replay(const Batch& batch, std::uint64_t seed) {
  copy_into(batch_.data, batch.data);
  copy_into(batch_.target, batch.target);
  seed_all(seed);
  graph_->replay();
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].second.mutable_grad() = gradients_[i];
  return loss_.clone();
}

}  // namespace lockstep
