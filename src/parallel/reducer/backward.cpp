// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/backward.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/trace.h"

namespace lockstep::parallel {
namespace {

[[noreturn]] void fail(const FaultyBackward& fault, const std::string& message, const std::string& hint) {
  fault.replica.running = false;
  if (fault.group.world_size() > 1) fault.group.abort(message);
  throw UsageError(message, hint);
}

FaultyBackward fault_of(const BackwardParts& parts, ReplicaBackward& replica) {
  return {parts.group, parts.step.gradients().parameters(), replica};
}

}  // namespace

void throw_bypassed(const FaultyBackward& fault) {
  fail(fault,
       "a backward did not come through a forward of this DistributedDataParallel: its gradients would stay on this "
       "rank",
       "in training call the wrapper, model(x), not model.module()(x), or the other wrapper of these parameters; add a "
       "regulariser to the loss and call backward once");
}

void throw_two_gradients(const FaultyBackward& fault, std::size_t index) {
  const std::string& name = fault.parameters.name(index);
  if (fault.replica.counts[index] > 1) {
    fail(fault, fmt::format("parameter '{}' got two gradients in one backward", name),
         "several recomputed (checkpointed) segments use it: set DdpOptions::static_graph if all steps are alike");
  }
  fail(fault, fmt::format("parameter '{}' got a gradient, but no output of forward depends on it", name),
       "use it only inside forward; for recomputed (checkpointed) segments set DdpOptions::static_graph instead of "
       "find_unused_parameters");
}

void throw_two_wrappers(const FaultyBackward& fault, std::size_t index) {
  fail(fault,
       fmt::format("parameter '{}' is in two wrappers, and one backward came through both",
                   fault.parameters.name(index)),
       "call backward once for each wrapper, or wrap one module that contains both");
}

void throw_changed_graph(const FaultyBackward& fault, std::size_t index) {
  fail(fault,
       fmt::format("DdpOptions::static_graph is set, but the graph has changed: parameter '{}' got {} gradients in "
                   "this backward and {} in the first step's",
                   fault.parameters.name(index), fault.replica.counts[index], fault.replica.expected[index]),
       "leave static_graph off if steps differ; find_unused_parameters is for branches");
}

void throw_unused(const FaultyBackward& fault, const std::vector<std::size_t>& missing) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (const std::size_t index : missing) {
    if (names.size() < kShown) names.push_back(fault.parameters.name(index));
  }
  fail(
      fault,
      fmt::format("{} of {} parameters got no gradient in backward: {}{}", missing.size(), fault.parameters.size(),
                  text::join(names), missing.size() > kShown ? ", ..." : ""),
      "the loss does not depend on them: set their requires_grad to false before wrapping (in a Task's make_model()), "
      "or DdpOptions::find_unused_parameters if that differs from step to step, static_graph if it does not; in a Task "
      "add 0 * parameter.sum() to an output");
}

int divisor_of(const std::optional<JoinHandle>& join, const JoinStatus& status) {
  return join && !status.divide_by_initial_world_size ? status.active : 0;
}

Backward::Backward(const BackwardParts& parts, std::function<void()> queue_end)
    : parts_(parts), queue_end_(std::move(queue_end)), replicas_(static_cast<std::size_t>(parts.layout.block.size())) {}

void Backward::enter(int local) {
  auto& outgoing = replica().gradients;
  outgoing.clear();
  local_ = local;
  if (parts_.step.holds_result()) return;
  auto& incoming = replica().gradients;
  const TrainedParameters& parameters = parts_.step.gradients().parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor& grad = parameters.grad(i);
    outgoing.push_back(std::move(grad));
    grad = i < incoming.size() ? std::move(incoming[i]) : at::Tensor();
  }
}

void Backward::before_forward() {
  ReplicaBackward& now = replica();
  Gradients& gradients = parts_.step.gradients();
  if (now.running && now.synced && gradients.buckets().is_halfway()) {
    throw UsageError("an earlier backward ended with an error after it had reduced some gradients",
                     "the ranks are out of step: let such an error end the program");
  }
  if (now.running && now.started) gradients.abandon();  // the error came after the last gradient
  now.running = false;
}

std::shared_ptr<ForwardPass> Backward::after_forward(bool complete) {
  ReplicaBackward& now = replica();
  now.armed = true;
  now.last_sync = now.sync;
  opaque_ = opaque_ || !complete;
  auto forward = std::make_shared<ForwardPass>(ForwardPass{.sync = now.sync});
  std::erase_if(now.forwards, [](const auto& one) { return one.expired(); });
  now.forwards.push_back(forward);
  return forward;
}

void Backward::begin() {
  replica().begin(parts_.step.gradients().parameters().size());
  queue_end_();
}

void Backward::output_reached(ForwardPass& forward) {
  ReplicaBackward& now = replica();
  if (!now.running) begin();
  forward.reached = true;
  now.reached = true;
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  now.whole = now.whole || wanted == nullptr || wanted->empty();
  if (!forward.sync || now.synced) return;
  now.synced = true;
  if (now.arrivals > 0) start_sync();
}

void Backward::gradient_ready(std::size_t index, const Arrival& arrival) {
  ReplicaBackward& now = replica();
  if (!now.running) {  // backward did not go through any known output
    if (arrival.shared && !opaque_) return;
    begin();
    now.synced = now.last_sync;
  }
  if (arrival.shared && now.synced) throw_two_wrappers(fault_of(parts_, replica()), index);
  if (now.arrivals++ == 0) {
    if (!now.armed && !now.reached && !opaque_) throw_bypassed(fault_of(parts_, replica()));
    parts_.step.forget_result();
    if (now.synced) start_sync();
  }
  ++now.counts[index];
  if (arrival.defined) parts_.step.note_used(index);
  if (now.is_recording(parts_.options)) {
    now.order.push_back(index);
  } else if (is_complete(index)) {
    complete(index);
  }
}

bool Backward::is_complete(std::size_t index) {
  const ReplicaBackward& now = replica();
  if (!now.synced) return true;
  if (!parts_.options.static_graph) {
    if (now.counts[index] > 1 || now.contributed[index]) throw_two_gradients(fault_of(parts_, replica()), index);
    return true;
  }
  if (now.counts[index] > now.expected[index]) throw_changed_graph(fault_of(parts_, replica()), index);
  return now.counts[index] == now.expected[index];
}

/// Called when this replica's gradient of parameter `index` is complete in grad().
void Backward::complete(std::size_t index) {
  ReplicaBackward& now = replica();
  if (!now.synced) return parts_.step.gradients().keep(index);
  now.contributed[index] = true;
  parts_.step.contribute(index, local_);
}

void Backward::contribute_unused(const std::vector<std::size_t>& indices) {
  for (const std::size_t index : indices) {
    replica().contributed[index] = true;
    parts_.step.contribute_unused(index, local_);
  }
}

/// Called when the backward is known to be synced.
void Backward::start_sync() {
  ReplicaBackward& now = replica();
  const DdpOptions& options = parts_.options;
  now.started = true;
  if (parts_.layout.is_last(local_)) {
    const JoinStatus status = parts_.join ? parts_.join->announce(kBackward) : JoinStatus{};
    parts_.step.begin(divisor_of(parts_.join, status));
  }
  if (now.is_recording(options)) {
    for (std::size_t i = 0; i < now.counts.size(); ++i) {
      if (now.counts[i] > 0) now.order.push_back(i);
    }
    return;
  }
  // Parameters on which no forward's output depends are ready before the first gradient.
  if (options.find_unused_parameters && !options.static_graph) contribute_unused(now.unreachable());
  for (std::size_t i = 0; i < now.counts.size(); ++i) {
    if (now.counts[i] > 0 && is_complete(i)) complete(i);
    if (options.static_graph && now.expected[i] == 0) contribute_unused({i});
  }
}

void Backward::end() {
  ReplicaBackward& now = replica();
  if (!now.running) return;
  if (now.arrivals == 0 && !now.whole) {  // autograd::grad(): no parameter gets a gradient
    now.running = false;
    return;
  }
  if (!now.synced) return now.end();
  const trace::Span span({.name = "DistributedDataParallel::end_backward"});
  if (!now.started) start_sync();
  if (now.is_recording(parts_.options)) finish_recording();
  handle_missing();
  now.end();
  if (parts_.layout.is_last(local_)) parts_.step.end();
}

void Backward::finish_recording() {
  ReplicaBackward& now = replica();
  now.expected = now.counts;
  for (const std::size_t index : now.recorded_order()) complete(index);
  for (std::size_t i = 0; i < now.expected.size(); ++i) {
    if (now.expected[i] == 0) contribute_unused({i});
  }
}

void Backward::handle_missing() {
  const std::vector<std::size_t> missing = replica().missing();
  if (missing.empty()) return;
  if (parts_.options.static_graph) throw_changed_graph(fault_of(parts_, replica()), missing.front());
  if (!parts_.options.find_unused_parameters) throw_unused(fault_of(parts_, replica()), missing);
  contribute_unused(missing);
}

}  // namespace lockstep::parallel
