// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/reducer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

ReplicaLayout layout_of(const ProcessGroup& group, const DdpOptions& options) {
  const int world = group.world_size();
  const int replicas = options.replicas == 0 ? world : options.replicas;
  if (replicas < world) {
    throw UsageError(fmt::format("DdpOptions::replicas is {}, but the world size is {}", replicas, world),
                     fmt::format("start at most {} ranks", replicas));
  }
  // With one replica per rank, rows are needed only if the backend may add in any order.
  const bool rows = replicas != world || (!options.exact && world > 1 && !options.hook);
  return {.replicas = rows ? replicas : 0,
          .block = replicas_of_rank(group.rank(), world, replicas),
          .world = world,
          .exact = options.exact,
          .hook = options.hook};
}

}  // namespace

AutogradHooks::~AutogradHooks() {
  for (std::size_t i = 0; i < hooks_.size(); ++i) accumulators_[i]->del_post_hook(hooks_[i]);
}

void AutogradHooks::attach(const NamedTensors& parameters, const Ready& ready) {
  using torch::autograd::variable_list;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters[i].second);
    auto hook = [ready, i](const variable_list& outputs, const variable_list& gradients) {
      ready(i, gradients.front().defined());
      return outputs;
    };
    hooks_.push_back(accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(hook)));
    parameter_of_[accumulator.get()] = i;
    accumulators_.push_back(std::move(accumulator));
  }
}

Reducer::Reducer(TrainedParameters parameters, ProcessGroup& group, const DdpOptions& options, GroupOwner owner)
    : owner_(std::move(owner)),
      group_(group),
      options_(options),
      layout_(layout_of(group, options)),
      running_(RunningBackwards::instance()),
      step_(std::move(parameters), group, options, layout_),
      backward_({group_, options_, layout_, step_, join_}, [this] {
        running_.add(hooks_.parameter_of());
        torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
          const auto self = weak.lock();
          if (!self) return;
          const std::lock_guard<std::mutex> lock(self->mutex_);
          self->running_.remove(self->hooks_.parameter_of());
          self->backward_.end();
        });
      }) {}

Reducer::~Reducer() { running_.remove(hooks_.parameter_of()); }

void Reducer::attach() {
  hooks_.attach(step_.gradients().parameters().items, [weak = weak_from_this()](std::size_t index, bool defined) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard<std::mutex> lock(self->mutex_);
    const bool shared = self->running_.has_other(self->hooks_.parameter_of(), self->hooks_.accumulator(index));
    self->backward_.gradient_ready(index, {.defined = defined, .shared = shared});
  });
}

void Reducer::enter_replica(int local) {
  const std::lock_guard<std::mutex> lock(mutex_);
  backward_.enter(local);
}

void Reducer::shard_gradients(bool on) {
  const std::lock_guard<std::mutex> lock(mutex_);
  step_.shard(on);
}

double Reducer::grad_norm() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return step_.norm();
}

void Reducer::before_forward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  backward_.before_forward();
  running_.remove(hooks_.parameter_of());
}

void Reducer::after_forward(const std::vector<at::Tensor>& outputs, bool complete) {
  if (!at::GradMode::is_enabled()) return;
  const bool finds_unused = options_.find_unused_parameters && !options_.static_graph;
  if (!complete && finds_unused) {
    throw UsageError("DdpOptions::find_unused_parameters cannot inspect what forward returns",
                     "return tensors, or containers, tuples and maps of them, or give the class a "
                     "visit_tensors(visit) const");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto forward = backward_.after_forward(complete);
  if (finds_unused) forward->reachable = reachable_parameters(outputs, hooks_.parameter_of());
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad() || output.is_leaf()) continue;  // a leaf would keep the hook forever
    (void)output.register_hook([weak = weak_from_this(), forward](const at::TensorBase&) {
      const auto self = weak.lock();
      if (!self) return;
      const std::lock_guard<std::mutex> held(self->mutex_);
      self->backward_.output_reached(*forward);
    });
  }
}

void Reducer::set_join(std::optional<JoinHandle> handle) {
  if (handle && layout_.has_rows() && layout_.replicas != layout_.world) {
    throw UsageError(
        fmt::format("Join needs one replica on each rank: there are {} on {}", layout_.replicas, layout_.world),
        "with DdpOptions::replicas, every replica needs the same number of batches");
  }
  join_ = handle;
}

void Reducer::shadow_backward(const JoinStatus& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  step_.shadow(divisor_of(join_, status));
}

}  // namespace lockstep::parallel
