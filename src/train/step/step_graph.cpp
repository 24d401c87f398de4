// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_graph.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/cuda_library.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/group_check.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/step_calls.h"
#include "lockstep/tensor/random.h"

namespace lockstep {
namespace {

/// Sets each value to its minimum over all ranks.
void take_least(ProcessGroup& group, const at::Tensor& values) {
  try {
    group.all_reduce(values, {.op = ReduceOp::kMin}).wait();
  } catch (const std::exception&) {
    check_group(group);  // the failure on the GPU is the root cause
    throw;
  }
}

/// Returns a hash of the key, never 0; 0 if there is no key.
std::int64_t number_of(const std::optional<std::string>& key) {
  return key ? static_cast<std::int64_t>(XXH3_64bits(key->data(), key->size()) | 1) : 0;
}

/// Returns true if every rank has the same key. Collective: yes. Throws: the failure of the group on the GPU; the
/// errors of Work::wait.
bool all_have(ProcessGroup& group, const std::optional<std::string>& key) {
  const std::int64_t number = number_of(key);
  const at::Tensor least = at::full({2}, number, at::kLong);
  auto* values = least.data_ptr<std::int64_t>();
  values[1] = ~number;
  take_least(group, least);
  return key && values[0] == number && values[1] == ~number;
}

/// Returns true if `here` is true on every rank. Collective: yes. Throws: anything all_have() throws.
bool all_are(ProcessGroup& group, bool here) {
  const at::Tensor all = at::full({}, here ? 1 : 0, at::kLong);
  take_least(group, all);
  return *all.data_ptr<std::int64_t>() == 1;
}

/// Returns the properties of a tensor that must be equal on all ranks: shape, dtype, memory order and device type.
std::string layout_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return fmt::format("{} [{}] [{}] {}", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ","),
                     fmt::join(tensor.strides(), ","), c10::DeviceTypeName(tensor.device().type()));
}

at::Tensor clone_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; }

std::string no_graph_words() {
  const std::string& why = cuda::library().obstacle.problem;
  return why.empty() ? "no CUDA graph is created" : why;
}

UsageError unrecordable(const std::string& why) {
  return UsageError("the step cannot be recorded as a CUDA graph: " + why,
                    "set cuda_graph=false, or remove code in forward and loss that reads a number back from the GPU");
}

void copy_into(const at::Tensor& target, const at::Tensor& source) {
  if (target.defined()) target.copy_(source, /*non_blocking=*/true);
}

}  // namespace

StepGraph::StepGraph(NamedTensors parameters, Compute compute, StepGraphOptions options)
    : parameters_(std::move(parameters)),
      compute_(std::move(compute)),
      options_(std::move(options)),
      next_(options_.make ? options_.make() : nullptr),
      sums_(parameters_.size()) {
  if (options_.job && options_.job->world_size() == 1) options_.job.reset();
  if (!next_) fallback_ = no_graph_words();
  if (next_ && options_.job && !next_->lets_other_threads()) {
    fallback_ = "this libtorch does not let another thread watch collectives while a step is being recorded";
  }
}

std::optional<std::string> StepGraph::key_of(const Batch& batch) const {
  if (!options_.key && batch.extra.has_value()) return std::nullopt;
  std::optional<std::string> key = options_.key ? options_.key(batch) : "";
  if (key) *key += fmt::format(" {} {} {}", batch.size, layout_of(batch.data), layout_of(batch.target));
  return key;
}

/// Returns the part of a key that says which gradients are defined: a recording adds to these and sets the others.
std::string StepGraph::defined_gradients() const {
  std::string text;
  for (const auto& item : parameters_) text += item.second.grad().defined() ? '+' : '0';
  return text.find('+') == std::string::npos ? "" : " adds " + text;
}

std::vector<at::Tensor> StepGraph::gradients() const {
  std::vector<at::Tensor> found;
  for (const auto& item : parameters_) found.push_back(item.second.grad());
  return found;
}

void StepGraph::set_gradients(const std::vector<at::Tensor>& gradients) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].second.mutable_grad() = gradients[i];
}

/// Moves gradients into the memory that recordings add to. After a normally computed step, they are elsewhere.
void StepGraph::gather_sums() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].second.mutable_grad();
    if (!gradient.defined() || gradient.is_same(sums_[i])) continue;
    if (!sums_[i].defined()) {
      sums_[i] = gradient;
    } else {
      sums_[i].copy_(gradient);
      gradient = sums_[i];
    }
  }
}

at::Tensor StepGraph::run(const Batch& batch, std::uint64_t seed) {
  const std::string adds = defined_gradients();
  adds_ = adds_ || !adds.empty();
  if (++steps_ == 1) share(fallback_);
  std::optional<std::string> key = fallback_.empty() ? key_of(batch) : std::nullopt;
  if (key) *key += adds;
  const bool compares = options_.job && fallback_.empty();
  if (!(compares ? all_have(options_.job->group(), key) : key.has_value())) return compute(batch, seed);
  if (const auto at = recordings_.find(*key); at != recordings_.end()) return replay(at->second, batch, seed);
  const int seen = seen_[*key]++;
  if (recordings_.size() == kMost) {  // on all ranks alike
    has_left_out_ = has_left_out_ || seen > 1;
    return compute(batch, seed);
  }
  if (seen == 1 && (options_.automatic || options_.job)) return look(batch, seed);
  if (seen > 1 && steps_ > (options_.job ? kWarmUpOfRanks : kWarmUp) && record(*key, batch, seed)) {
    return replay(recordings_.at(*key), batch, seed);
  }
  return compute(batch, seed);
}

/// Informs all ranks of an obstacle: if one rank cannot record, no rank does.
void StepGraph::share(std::string obstacle) {
  const bool none = obstacle.empty();
  if (options_.job ? all_are(options_.job->group(), none) : none) return;
  fallback_ = obstacle.empty() ? "another rank cannot record its steps" : std::move(obstacle);
}

at::Tensor StepGraph::compute(const Batch& batch, std::uint64_t seed) {
  seed_all(seed);
  const std::shared_ptr<void> stream = next_ ? next_->enter() : nullptr;
  return compute_(batch);
}

/// Computes a step normally and checks whether it could be recorded.
at::Tensor StepGraph::look(const Batch& batch, std::uint64_t seed) {
  at::Tensor loss;
  std::vector<std::string> waits;
  StepCalls calls;
  const auto work = [&] { waits = next_->waits([&] { loss = compute(batch, seed); }); };
  if (options_.job) {
    calls = calls_of(options_.job->group(), work);
  } else {
    work();
  }
  std::string obstacle;
  if (options_.automatic && !waits.empty()) obstacle = fmt::format("{} makes the host wait for the GPU", waits[0]);
  if (!calls.on_host.empty()) obstacle = fmt::format("the hosts take part in {} within the step", calls.on_host);
  if (!obstacle.empty() && !options_.automatic) throw unrecordable(obstacle);
  share(std::move(obstacle));
  return loss;
}

/// Records the step. Returns why it cannot be recorded; empty on success.
std::string StepGraph::capture(Recording& made) {
  const auto work = [&] {
    made.graph->record([&] {
      made.loss = compute_(made.batch);
      if (adds_) gather_sums();  // that is where the next batch expects the sums
    });
  };
  try {
    if (!options_.job) {
      work();
      return "";
    }
    const StepCalls calls = calls_of(options_.job->group(), work);
    made.calls = calls.recorded;
    return calls.on_host.empty() ? "" : fmt::format("the hosts take part in {} within the step", calls.on_host);
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;  // the error already carries advice
  } catch (const std::exception& error) {
    std::string why = text::first_line(error.what());
    // If the allocator and the random generator still belonged to the failed recording, later steps would be wrong.
    if (!options_.automatic || !made.graph->intact()) throw unrecordable(why);
    return why;
  }
}

bool StepGraph::record(const std::string& key, const Batch& batch, std::uint64_t seed) {
  Recording& made = recordings_.emplace(key, Recording{.graph = std::move(next_), .batch = batch}).first->second;
  next_ = options_.make();
  made.batch.data = clone_of(batch.data);
  made.batch.target = clone_of(batch.target);
  if (adds_) gather_sums();
  const std::vector<at::Tensor> gradients_before = gradients();
  const std::vector<at::Tensor> sums_before = sums_;
  seed_all(seed);  // before the recording, because the generator then belongs to the graph
  share(capture(made));
  if (fallback_.empty()) {
    made.gradients = gradients();
    return true;
  }
  recordings_.erase(key);
  sums_ = sums_before;
  set_gradients(gradients_before);
  return false;
}

at::Tensor StepGraph::replay(Recording& recording, const Batch& batch, std::uint64_t seed) {
  if (adds_) gather_sums();
  copy_into(recording.batch.data, batch.data);
  copy_into(recording.batch.target, batch.target);
  seed_all(seed);
  const auto launch = [&] { recording.graph->replay(); };
  if (recording.calls != 0) {
    replay_step(options_.job->group(), recording.calls, launch);
  } else {
    launch();
  }
  set_gradients(recording.gradients);
  return recording.loss.clone();
}

}  // namespace lockstep
