// SPDX-License-Identifier: Apache-2.0
// The Reducer on parameters that get no gradient, or not as expected: what they count as, and what an error says.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "parallel/first_batches.h"
#include "parallel/reducer.h"

namespace lockstep::parallel {

/// Parameters that no forward's outputs depend on are ready before the first gradient is.
void Reducer::mark_unreachable() {
  std::vector<bool> reachable;
  for (const auto& one : turn().forwards) {
    const auto forward = one.lock();
    if (!forward) continue;
    reachable.resize(gradients_.size());
    for (std::size_t i = 0; i < reachable.size(); ++i) reachable[i] = reachable[i] || forward->reachable[i];
  }
  for (std::size_t i = 0; i < reachable.size(); ++i) {
    if (!reachable[i] && turn().counts[i] == 0) contribute_unused(i);
  }
}

/// By parameter, whether any replica of the run has used it; empty where this rank need not know.
std::vector<bool> Reducer::used_anywhere() {
  if (!options_.find_unused_parameters && !options_.static_graph) return {};
  if (options_.static_graph && settled_) return used_in_static_;  // on every rank alike
  const auto count = static_cast<std::int64_t>(gradients_.size());
  const at::Tensor used = at::zeros({count}, at::kInt);
  std::copy(used_.begin(), used_.end(), used.data_ptr<std::int32_t>());
  Work work = group_.all_reduce(used, {.op = ReduceOp::kMax});
  // Another rank may need to know, and has called the same.
  if (std::find(used_.begin(), used_.end(), false) == used_.end()) return {};
  work.wait();
  std::vector<bool> anywhere(gradients_.size());
  for (std::size_t i = 0; i < anywhere.size(); ++i) anywhere[i] = used.data_ptr<std::int32_t>()[i] != 0;
  used_in_static_ = anywhere;
  return anywhere;
}

void Reducer::rebuild() {
  settled_ = true;
  warn_of_equal_batches(group_);
  if (!gradients_.has_buckets() || keeps_plan_) return;
  const auto count = static_cast<std::int64_t>(gradients_.size());
  for (const Bucket& bucket : buckets().all()) {  // what did not arrive stays in the order that there is
    for (const std::size_t i : bucket.members) {
      const auto end = arrival_order_.end();
      if (std::find(arrival_order_.begin(), end, i) == end) arrival_order_.push_back(i);
    }
  }
  const at::Tensor agreed = at::empty({count}, at::kLong);
  std::copy(arrival_order_.begin(), arrival_order_.end(), agreed.data_ptr<std::int64_t>());
  group_.broadcast(agreed, 0).wait();
  const auto* first = agreed.data_ptr<std::int64_t>();
  if (gradients_.rebuild(std::vector<std::size_t>(first, first + count))) ++rebuilds_;
}

void Reducer::require_forward() {
  const Turn& now = turn();
  if (now.armed || now.reached || opaque_) return;
  fail(
      "a backward came through the inner module, not through DistributedDataParallel: its gradients would stay on this "
      "rank",
      "call the wrapper, model(x), not model.module()(x), in training");
}

void Reducer::throw_two_gradients(std::size_t index) {
  const std::string& name = gradients_.name(index);
  if (turn().counts[index] > 1) {
    fail(fmt::format("parameter '{}' got two gradients in one backward", name),
         "several recomputed (checkpointed) segments use it: set DdpOptions::static_graph, where all steps are alike");
  }
  fail(fmt::format("parameter '{}' got a gradient, but no output of forward depends on it", name),
       "use it inside of forward only; for recomputed (checkpointed) segments set DdpOptions::static_graph instead of "
       "find_unused_parameters");
}

void Reducer::throw_changed_graph(std::size_t index) {
  const Turn& now = turn();
  fail(
      fmt::format("DdpOptions::static_graph is set, but the graph has changed: parameter '{}' got {} gradients in this "
                  "backward and {} in the first step's",
                  gradients_.name(index), now.counts[index], now.expected[index]),
      "leave static_graph off where steps differ; find_unused_parameters is for branches");
}

void Reducer::throw_unused(const std::vector<std::size_t>& missing) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (const std::size_t index : missing) {
    if (names.size() < kShown) names.push_back(gradients_.name(index));
  }
  fail(fmt::format("{} of {} parameters got no gradient in backward: {}{}", missing.size(), gradients_.size(),
                   text::join(names), missing.size() > kShown ? ", ..." : ""),
       "the loss does not depend on them: set DdpOptions::find_unused_parameters where that differs from step to step, "
       "static_graph where it does not, or requires_grad to false before wrapping");
}

/// Other ranks may have all that they wait for from each other, but not what they wait for from this one.
void Reducer::fail(const std::string& message, const std::string& hint) {
  turn().running = false;
  if (group_.world_size() > 1) group_.abort(message);
  throw UsageError(message, hint);
}

}  // namespace lockstep::parallel
