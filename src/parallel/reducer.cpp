// SPDX-License-Identifier: Apache-2.0
// The life of a gradient between autograd and the all_reduce.
#include "parallel/reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/trace.h"
#include "parallel/bucket_plan.h"

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
  const bool rows = replicas != world || (!options.exact && world > 1);
  return {.replicas = rows ? replicas : 0,
          .block = replicas_of_rank(group.rank(), world, replicas),
          .world = world,
          .exact = options.exact};
}

void require_dense(const std::string& name, const at::Tensor& grad) {
  if (!grad.defined() || !grad.is_sparse()) return;
  throw UsageError(fmt::format("the gradient of '{}' is sparse", name),
                   "DistributedDataParallel reduces dense gradients: use a dense embedding");
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

}  // namespace

Reducer::Reducer(NamedTensors parameters, ProcessGroup& group, const DdpOptions& options)
    : parameters_(std::move(parameters)), group_(group), options_(options), layout_(layout_of(group, options)) {
  turns_.resize(static_cast<std::size_t>(local_replicas()));
  for (Turn& turn : turns_) turn.arrived.resize(parameters_.size());
  if (!has_buckets()) return;
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  buckets_ = Buckets(parameters_, plan(order), layout_, group_);
}

Reducer::~Reducer() {
  for (std::size_t i = 0; i < hooks_.size(); ++i) accumulators_[i]->del_post_hook(hooks_[i]);
}

void Reducer::attach() {
  const std::weak_ptr<Reducer> weak = weak_from_this();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[i].second);
    auto hook = [weak, i](const variable_list& outputs, const variable_list&) {
      if (const auto self = weak.lock()) self->gradient_ready(i);
      return outputs;
    };
    hooks_.push_back(accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(hook)));
    accumulators_.push_back(std::move(accumulator));
  }
}

std::vector<std::vector<std::size_t>> Reducer::plan(const std::vector<std::size_t>& order) const {
  std::vector<PlanItem> items;
  for (const auto& item : parameters_) {
    items.push_back(
        {.bytes = static_cast<std::int64_t>(item.second.nbytes()),
         .kind = fmt::format("{} {}", c10::toString(item.second.scalar_type()), item.second.device().str())});
  }
  return plan_buckets(items, order, {.first_bytes = options_.first_bucket_bytes, .bytes = options_.bucket_bytes});
}

void Reducer::enter_replica(int local) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& outgoing = turn().gradients;
  outgoing.clear();
  replica_ = local;
  if (reduced_) return;
  auto& incoming = turn().gradients;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& grad = parameters_[i].second.mutable_grad();
    outgoing.push_back(std::move(grad));
    grad = i < incoming.size() ? std::move(incoming[i]) : at::Tensor();
  }
}

void Reducer::before_forward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (turn().running && turn().synced && buckets_.is_halfway()) {
    throw UsageError("an earlier backward ended with an error after it had reduced some gradients",
                     "the ranks are out of step: let such an error end the program");
  }
  if (turn().running && turn().synced) buckets_.wait();  // the error came after the last gradient
  turn().running = false;
}

void Reducer::begin_backward() {
  turn().running = true;
  turn().synced = turn().sync;
  turn().arrived.assign(parameters_.size(), false);
  reduced_ = false;
  if (is_last()) {
    arrival_order_.clear();
    buckets_.restart();
  }
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->end_backward();
  });
}

void Reducer::gradient_ready(std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!turn().running) begin_backward();
  if (turn().arrived[index]) {
    throw UsageError(fmt::format("parameter '{}' got two gradients in one backward", parameters_[index].first),
                     "checkpointing that runs a backward inside backward is not supported");
  }
  turn().arrived[index] = true;
  if (is_last()) arrival_order_.push_back(index);
  if (!has_buckets()) return;
  // Without rows a gradient lives in its bucket at once; else each replica accumulates where autograd puts it.
  if (!layout_.has_rows()) take_gradient(index);
  if (!turn().synced) return;
  if (layout_.has_rows()) fold_gradient(index);
  if (is_last()) buckets_.arrived(index, group_);
}

void Reducer::fold_gradient(std::size_t index) {
  const at::NoGradGuard no_grad;
  at::Tensor& grad = parameters_[index].second.mutable_grad();
  require_dense(parameters_[index].first, grad);
  const at::Tensor& view = buckets_.view(index);
  buckets_.fold(index, static_cast<std::size_t>(replica_), grad.defined() ? grad : at::zeros_like(view));
  grad = is_last() ? view : at::Tensor();
}

void Reducer::take_gradient(std::size_t index) {
  const at::NoGradGuard no_grad;
  const at::Tensor& view = buckets_.view(index);
  at::Tensor& grad = parameters_[index].second.mutable_grad();
  require_dense(parameters_[index].first, grad);
  if (grad.defined() && same_memory(grad, view)) return;
  if (grad.defined()) {
    view.copy_(grad);
  } else {
    view.zero_();
  }
  grad = view;
}

void Reducer::end_backward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!turn().synced) {
    turn().running = false;
    return;
  }
  const trace::Span span({.name = "DistributedDataParallel::end_backward"});
  handle_unused();
  turn().running = false;
  if (!is_last()) return;
  buckets_.wait();
  reduced_ = true;
  if (!settled_) rebuild();
}

void Reducer::handle_unused() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (turn().arrived[i]) continue;
    names.push_back(parameters_[i].first);
    if (!options_.allow_unused || !has_buckets()) continue;
    if (layout_.has_rows()) {
      fold_gradient(i);
    } else {
      take_gradient(i);
    }
    if (is_last()) buckets_.arrived(i, group_);
  }
  if (names.empty() || options_.allow_unused) return;
  constexpr std::size_t kShown = 8;
  const std::size_t count = names.size();
  if (count > kShown) names.resize(kShown);
  const std::string message = fmt::format("{} of {} parameters got no gradient in backward: {}{}", count,
                                          parameters_.size(), text::join(names), count > kShown ? ", ..." : "");
  // Other ranks may have all of theirs and wait for ours.
  if (group_.world_size() > 1) group_.abort(message);
  turn().running = false;
  throw UsageError(
      message,
      "the loss does not depend on them, or their member was replaced after wrapping; set requires_grad to "
      "false before wrapping, or DdpOptions::allow_unused");
}

void Reducer::rebuild() {
  settled_ = true;
  if (!has_buckets()) return;
  const auto count = static_cast<std::int64_t>(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!turn().arrived[i]) arrival_order_.push_back(i);
  }
  const at::Tensor agreed = at::empty({count}, at::kLong);
  std::copy(arrival_order_.begin(), arrival_order_.end(), agreed.data_ptr<std::int64_t>());
  group_.broadcast(agreed, 0).wait();
  const auto* first = agreed.data_ptr<std::int64_t>();
  auto better = plan(std::vector<std::size_t>(first, first + count));
  if (buckets_.has_plan(better)) return;
  Buckets rebuilt(parameters_, std::move(better), layout_, group_);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& grad = parameters_[i].second.mutable_grad();
    rebuilt.view(i).copy_(grad);
    grad = rebuilt.view(i);
  }
  buckets_ = std::move(rebuilt);
  ++rebuilds_;
}

}  // namespace lockstep::parallel
