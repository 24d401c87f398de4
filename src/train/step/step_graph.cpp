// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_graph.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/random.h"

namespace lockstep {
namespace {

/// What recordings have in common: shape, dtype, memory order and device of a tensor.
std::string layout_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return fmt::format("{} [{}] [{}] {}", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ","),
                     fmt::join(tensor.strides(), ","), tensor.device().str());
}

at::Tensor clone_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; }

void copy_into(const at::Tensor& mine, const at::Tensor& theirs) {
  if (mine.defined()) mine.copy_(theirs, /*non_blocking=*/true);
}

}  // namespace

StepGraph::StepGraph(NamedTensors parameters, Compute compute, StepGraphOptions options)
    : parameters_(std::move(parameters)),
      compute_(std::move(compute)),
      options_(std::move(options)),
      next_(options_.make ? options_.make() : nullptr) {
  if (!next_) fallback_ = "this build of Lockstep has no CUDA";
}

std::optional<std::string> StepGraph::key_of(const Batch& batch) const {
  if (!options_.key && batch.extra.has_value()) return std::nullopt;
  std::optional<std::string> key = options_.key ? options_.key(batch) : "";
  if (key) *key += fmt::format(" {} {} {}", batch.size, layout_of(batch.data), layout_of(batch.target));
  return key;
}

StepGraph::Recording* StepGraph::find(const std::string& key) {
  const auto at = std::ranges::find(recordings_, key, &std::pair<std::string, Recording>::first);
  if (at == recordings_.end()) return nullptr;
  recordings_.splice(recordings_.begin(), recordings_, at);
  return &at->second;
}

at::Tensor StepGraph::run(const Batch& batch, std::uint64_t seed) {
  const std::optional<std::string> key = fallback_.empty() ? key_of(batch) : std::nullopt;
  ++steps_;
  if (!key) return compute(batch, seed);
  if (Recording* recording = find(*key)) return replay(*recording, batch, seed);
  const int seen = seen_[*key]++;
  if (seen == 1 && options_.automatic) return look(batch, seed);
  if (seen > 1 && steps_ > kWarmUp && record(*key, batch, seed)) {
    return replay(recordings_.front().second, batch, seed);
  }
  return compute(batch, seed);
}

at::Tensor StepGraph::compute(const Batch& batch, std::uint64_t seed) {
  seed_all(seed);
  const std::shared_ptr<void> stream = next_ ? next_->enter() : nullptr;
  return compute_(batch);
}

/// A step as any other; whether it could be recorded is known after it.
at::Tensor StepGraph::look(const Batch& batch, std::uint64_t seed) {
  at::Tensor loss;
  const std::string wait = next_->first_wait([&] { loss = compute(batch, seed); });
  if (!wait.empty()) fallback_ = fmt::format("{} makes the host wait for the GPU", wait);
  return loss;
}

bool StepGraph::record(const std::string& key, const Batch& batch, std::uint64_t seed) {
  if (recordings_.size() == kMost) recordings_.pop_back();
  Recording& made = recordings_.emplace_front(key, Recording{.graph = std::move(next_), .batch = batch}).second;
  next_ = options_.make();
  made.batch.data = clone_of(batch.data);
  made.batch.target = clone_of(batch.target);
  drop_gradients();
  seed_all(seed);  // not while it is recorded: the generator then belongs to the graph
  try {
    made.graph->record([&] { made.loss = compute_(made.batch); });
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;  // it has its own advice
  } catch (const std::exception& error) {
    const std::string why = text::first_line(error.what());
    if (!options_.automatic || !made.graph->intact()) {
      // The allocator and the random generator belong to the broken recording, so a later step would be wrong.
      throw UsageError("the step cannot be recorded as a CUDA graph: " + why,
                       "set cuda_graph=false, or leave out what reads a number back from the GPU in forward and loss");
    }
    fallback_ = why;
    recordings_.pop_front();
    drop_gradients();
    return false;
  }
  for (const auto& item : parameters_) made.gradients.push_back(item.second.grad());
  return true;
}

void StepGraph::drop_gradients() {
  for (const auto& item : parameters_) item.second.mutable_grad() = at::Tensor();
}

at::Tensor StepGraph::replay(Recording& recording, const Batch& batch, std::uint64_t seed) {
  copy_into(recording.batch.data, batch.data);
  copy_into(recording.batch.target, batch.target);
  seed_all(seed);
  recording.graph->replay();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].second.mutable_grad() = recording.gradients[i];
  }
  return recording.loss.clone();
}

}  // namespace lockstep
