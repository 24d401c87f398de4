// SPDX-License-Identifier: Apache-2.0
// The life of a backward, from the first node that it reaches to the last reduction.
#include "parallel/reducer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "lockstep/optim/clip.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::variable_list;

ReplicaLayout layout_of(const ProcessGroup& group, const DdpOptions& options) {
  const int world = group.world_size();
  const int replicas = options.replicas == 0 ? world : options.replicas;
  if (replicas < world) {
    throw UsageError(fmt::format("DdpOptions::replicas is {} in a world of {}", replicas, world),
                     fmt::format("start at most {} ranks", replicas));
  }
  // One replica per rank needs no rows, unless the backend is to be told that any order will do.
  const bool rows = replicas != world || (!options.exact && world > 1 && !options.hook);
  return {.replicas = rows ? replicas : 0,
          .block = replicas_of_rank(group.rank(), world, replicas),
          .world = world,
          .exact = options.exact,
          .hook = options.hook};
}

}  // namespace

Reducer::Reducer(TrainedParameters parameters, ProcessGroup& group, const DdpOptions& options)
    : group_(group),
      options_(options),
      layout_(layout_of(group, options)),
      gradients_(std::move(parameters), group, options, layout_),
      turns_(static_cast<std::size_t>(layout_.block.size())),
      used_(gradients_.size()) {}

Reducer::~Reducer() {
  for (std::size_t i = 0; i < hooks_.size(); ++i) accumulators_[i]->del_post_hook(hooks_[i]);
}

void Reducer::attach() {
  const std::weak_ptr<Reducer> weak = weak_from_this();
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters()[i].second);
    auto hook = [weak, i](const variable_list& outputs, const variable_list& gradients) {
      if (const auto self = weak.lock()) self->gradient_ready(i, gradients.front().defined());
      return outputs;
    };
    hooks_.push_back(accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(hook)));
    parameter_of_[accumulator.get()] = i;
    accumulators_.push_back(std::move(accumulator));
  }
}

void Reducer::enter_replica(int local) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& outgoing = turn().gradients;
  outgoing.clear();
  replica_ = local;
  if (reduced_) return;
  auto& incoming = turn().gradients;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    at::Tensor& grad = gradients_.grad(i);
    outgoing.push_back(std::move(grad));
    grad = i < incoming.size() ? std::move(incoming[i]) : at::Tensor();
  }
}

void Reducer::shard_gradients(bool on) {
  if (on && layout_.hook) {
    throw UsageError("sharded gradients with a communication hook", "leave out one of the two");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  gradients_.shard(on);
  sharded_ = on;
  keeps_plan_ = keeps_plan_ || on;  // parts of other buckets would be other parts
}

double Reducer::grad_norm() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sharded_) {
    throw UsageError("the norm of gradients of which each rank has its part only", "use the optimizer's grad_norm()");
  }
  return reduced_ ? gradients_.norm() : lockstep::grad_norm(parameters());
}

void Reducer::before_forward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Turn& now = turn();
  if (now.running && now.synced && buckets().is_halfway()) {
    throw UsageError("an earlier backward ended with an error after it had reduced some gradients",
                     "the ranks are out of step: let such an error end the program");
  }
  if (now.running && now.started) gradients_.abandon();  // the error came after the last gradient
  now.running = false;
}

void Reducer::after_forward(const std::vector<at::Tensor>& outputs, bool complete) {
  if (!at::GradMode::is_enabled()) return;
  if (!complete && finds_unused()) {
    throw UsageError("DdpOptions::find_unused_parameters cannot look into what forward returns",
                     "return tensors, or containers, tuples and maps of them, or give the class a "
                     "visit_tensors(visit) const");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  Turn& now = turn();
  now.armed = true;
  now.last_sync = now.sync;
  opaque_ = opaque_ || !complete;
  const auto forward = std::make_shared<ForwardPass>(ForwardPass{.sync = now.sync});
  if (finds_unused()) forward->reachable = reachable_parameters(outputs, parameter_of_);
  std::erase_if(now.forwards, [](const auto& one) { return one.expired(); });
  now.forwards.push_back(forward);
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad() || output.is_leaf()) continue;  // a leaf would keep the hook for good
    (void)output.register_hook([weak = weak_from_this(), forward](const at::TensorBase&) {
      if (const auto self = weak.lock()) self->output_reached(*forward);
    });
  }
}

void Reducer::begin_backward() {
  Turn& now = turn();
  now.running = true;
  now.reached = now.whole = now.synced = now.started = false;
  now.arrivals = 0;
  now.counts.assign(gradients_.size(), 0);
  now.contributed.assign(gradients_.size(), false);
  now.order.clear();
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->end_backward();
  });
}

void Reducer::output_reached(ForwardPass& forward) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Turn& now = turn();
  if (!now.running) begin_backward();
  forward.reached = true;
  now.reached = true;
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  now.whole = now.whole || wanted == nullptr || wanted->empty();
  if (!forward.sync || now.synced) return;
  now.synced = true;
  if (now.arrivals > 0) start_sync();
}

void Reducer::gradient_ready(std::size_t index, bool defined) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Turn& now = turn();
  if (!now.running) {  // through no output that is known
    begin_backward();
    now.synced = now.last_sync;
  }
  if (now.arrivals++ == 0) {
    require_forward();
    reduced_ = false;
    if (now.synced) start_sync();
  }
  ++now.counts[index];
  if (defined) used_[index] = true;
  if (is_recording()) {
    now.order.push_back(index);
  } else if (is_complete(index)) {
    complete(index);
  }
}

bool Reducer::is_complete(std::size_t index) {
  Turn& now = turn();
  if (!now.synced) return true;
  if (!options_.static_graph) {
    if (now.counts[index] > 1 || now.contributed[index]) throw_two_gradients(index);
    return true;
  }
  if (now.counts[index] > now.expected[index]) throw_changed_graph(index);
  return now.counts[index] == now.expected[index];
}

/// All of `index`'s gradient of this replica is in grad().
void Reducer::complete(std::size_t index) {
  Turn& now = turn();
  if (!now.synced) return gradients_.keep(index);
  now.contributed[index] = true;
  if (is_last()) arrival_order_.push_back(index);
  if (gradients_.has_buckets()) gradients_.contribute(index, replica_);
}

void Reducer::contribute_unused(std::size_t index) {
  turn().contributed[index] = true;
  if (gradients_.has_buckets()) gradients_.contribute_unused(index, replica_);
}

void Reducer::begin_step(const JoinStatus& status) {
  arrival_order_.clear();
  const bool by_active = join_ && !status.divide_by_initial_world_size;
  gradients_.restart(by_active ? status.active : 0);
}

/// The backward is known to be synced, and to be one.
void Reducer::start_sync() {
  Turn& now = turn();
  now.started = true;
  if (is_last()) begin_step(join_ ? join_->announce(kBackward) : JoinStatus{});
  if (is_recording()) {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (now.counts[i] > 0) now.order.push_back(i);
    }
    return;
  }
  if (finds_unused()) mark_unreachable();
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (now.counts[i] > 0 && is_complete(i)) complete(i);
    if (options_.static_graph && now.expected[i] == 0) contribute_unused(i);
  }
}

void Reducer::end_backward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Turn& now = turn();
  if (!now.running) return;
  if (now.arrivals == 0 && !now.whole) {  // autograd::grad(): no parameter was to get anything
    now.running = false;
    return;
  }
  if (!now.synced) return end_turn();
  const trace::Span span({.name = "DistributedDataParallel::end_backward"});
  if (!now.started) start_sync();
  if (is_recording()) finish_recording();
  handle_missing();
  end_turn();
  if (is_last()) end_step();
}

void Reducer::finish_recording() {
  Turn& now = turn();
  now.expected = now.counts;
  // In the order of the last arrivals: that is when gradients are complete in the steps to come.
  std::vector<std::size_t> order;
  for (auto index = now.order.rbegin(); index != now.order.rend(); ++index) {
    if (std::find(order.begin(), order.end(), *index) == order.end()) order.push_back(*index);
  }
  std::reverse(order.begin(), order.end());
  for (const std::size_t index : order) complete(index);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (now.expected[i] == 0) contribute_unused(i);
  }
}

void Reducer::handle_missing() {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!turn().contributed[i]) missing.push_back(i);
  }
  if (missing.empty()) return;
  if (options_.static_graph) throw_changed_graph(missing.front());
  if (!finds_unused()) throw_unused(missing);
  for (const std::size_t index : missing) contribute_unused(index);
}

void Reducer::end_turn() {
  Turn& now = turn();
  now.running = false;
  std::erase_if(now.forwards, [](const auto& one) {
    const auto forward = one.lock();
    return !forward || forward->reached;
  });
  now.armed = !now.forwards.empty();
}

void Reducer::end_step() {
  if (gradients_.has_buckets()) gradients_.deliver(used_anywhere());
  used_.assign(gradients_.size(), false);
  reduced_ = true;
  if (!settled_) rebuild();
}

void Reducer::set_join(std::optional<JoinHandle> handle) {
  if (handle && layout_.has_rows() && layout_.replicas != layout_.world) {
    throw UsageError(
        fmt::format("Join needs one replica on each rank: there are {} on {}", layout_.replicas, layout_.world),
        "with DdpOptions::replicas give every replica as many batches");
  }
  join_ = handle;
}

void Reducer::shadow_backward(const JoinStatus& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  begin_step(status);
  used_.assign(gradients_.size(), false);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    gradients_.grad(i) = at::Tensor();  // its last step's, which all have had
    gradients_.contribute_unused(i, 0);
  }
  end_step();
}

}  // namespace lockstep::parallel
