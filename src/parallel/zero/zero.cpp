// SPDX-License-Identifier: Apache-2.0
// Runs the optimizer of this rank's part, and gathers the results.
#include "lockstep/parallel/zero.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "lockstep/optim/clip.h"
#include "parallel/reducer/reducer.h"
#include "parallel/zero/zero_layout.h"
#include "parallel/zero/zero_norm.h"

namespace lockstep {

using parallel::ZeroGroup;
using parallel::ZeroLayout;

class ZeroRedundancyOptimizer::Impl {
 public:
  Impl(NamedTensors parameters, ProcessGroup& group, const Make& make, std::shared_ptr<parallel::Reducer> reducer,
       parallel::GroupOwner owner)
      : owner_(std::move(owner)),
        parameters_(tensor::without_repeats(std::move(parameters))),
        group_(&group),
        reducer_(std::move(reducer)),
        layout_(parameters_, parallel::groups_by_kind(parameters_, buckets_of_reducer()), group.world_size(),
                group.rank()) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parts_.emplace_back(parameters_[i].first, layout_.own_part(i));
      index_of_[parameters_[i].first] = i;
    }
    local_ = make(parts_);
    if (!local_->elementwise()) {
      throw UsageError(
          "ZeroRedundancyOptimizer cannot wrap an optimizer that needs the norms of whole parameters",
          "LAMB and LARS cannot be sharded: use them without ZeroRedundancyOptimizer, or choose another optimizer");
    }
    if (reducer_) reducer_->shard_gradients(true);
  }

  ~Impl() {
    if (reducer_) reducer_->shard_gradients(false);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] double grad_norm() const {
    return reducer_ ? parallel::sharded_grad_norm(parameters_, layout_, *group_) : lockstep::grad_norm(parameters_);
  }

  void step(double grad_scale) {
    whole_.reset();
    hand_gradients_over();
    local_->step(grad_scale);
    for (const auto& part : parts_) part.second.mutable_grad().reset();
    gather_parameters();
  }

  void digest_updates() {
    std::vector<std::int64_t> begins;
    for (const parallel::ZeroPart& part : layout_.parts()) begins.push_back(part.begin);
    local_->digest_updates(begins);
  }

  void consolidate();
  [[nodiscard]] StateDict state_dict() const;
  [[nodiscard]] StatePart state_part() const;
  void load(const StateDict& state);

  [[nodiscard]] const NamedTensors& parameters() const { return parameters_; }
  [[nodiscard]] Optimizer& local() const { return *local_; }

 private:
  [[nodiscard]] std::vector<std::vector<std::size_t>> buckets_of_reducer() const;
  void hand_gradients_over();
  void gather_parameters();
  [[nodiscard]] StateDict own_part_of(const StateDict& state) const;
  [[nodiscard]] std::optional<std::size_t> parameter_of(const std::string& entry) const;
  void gather_kind(const std::string& kind, const NamedTensors& entries, StateDict& whole) const;

  parallel::GroupOwner owner_;  ///< destroyed last
  NamedTensors parameters_;
  ProcessGroup* group_;
  std::shared_ptr<parallel::Reducer> reducer_;  ///< reducer that shards the gradients for this optimizer
  ZeroLayout layout_;
  NamedTensors parts_;  ///< this rank's part of each parameter
  std::map<std::string, std::size_t> index_of_;
  std::unique_ptr<Optimizer> local_;
  std::optional<StateDict> whole_;  ///< the consolidated state, on rank 0
};

/// Returns the reducer's buckets as indices of this optimizer's parameters, so that its parts match what the reducer
/// leaves on this rank.
std::vector<std::vector<std::size_t>> ZeroRedundancyOptimizer::Impl::buckets_of_reducer() const {
  std::vector<std::vector<std::size_t>> groups;
  if (!reducer_) return groups;
  std::map<const void*, std::size_t> index_of;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    index_of[parameters_[i].second.unsafeGetTensorImpl()] = i;
  }
  for (const parallel::Bucket& bucket : reducer_->step().gradients().buckets().all()) {
    auto& members = groups.emplace_back();
    for (const std::size_t reduced : bucket.members) {
      const auto& [name, value] = reducer_->step().gradients().parameters().items[reduced];
      const auto found = index_of.find(value.unsafeGetTensorImpl());
      if (found == index_of.end()) {
        throw UsageError(
            fmt::format("the optimizer does not have the model's parameter '{}'", name),
            "with ZeroOptions::shard_gradients, pass all trainable parameters of the model to the optimizer");
      }
      members.push_back(found->second);
    }
  }
  return groups;
}

void ZeroRedundancyOptimizer::Impl::hand_gradients_over() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, value] = parameters_[i];
    if (!layout_.is_in_place(value, i)) {
      throw UsageError(
          fmt::format("the memory of parameter '{}' was replaced after ZeroRedundancyOptimizer took it", name),
          "convert the model first, and copy values into parameters instead of replacing them");
    }
    const at::Tensor& grad = value.grad();
    if (!grad.defined()) continue;
    if (grad.is_sparse()) {
      throw UsageError(
          fmt::format("the gradient of '{}' is sparse, which ZeroRedundancyOptimizer does not support", name));
    }
    parts_[i].second.mutable_grad() = layout_.part_of(layout_.in_memory_order(grad, i), i);
  }
}

void ZeroRedundancyOptimizer::Impl::gather_parameters() {
  const trace::Span span({.name = "ZeroRedundancyOptimizer::gather"});
  std::vector<Work> works;
  for (const ZeroGroup& group : layout_.groups()) {
    works.push_back(group_->all_gather_into(group.flat.narrow(0, group.own.begin, group.own.size()), group.flat));
  }
  for (Work& work : works) work.wait();
  for (const auto& item : parameters_) {
    // The step wrote through the parts, which have versions of their own.
    const at::Tensor& value = item.second;
    if (value.grad().defined() && !value.is_inference()) value.unsafeGetTensorImpl()->bump_version();
  }
}

/// Returns the parameter that "<parameter>.<kind>" belongs to.
std::optional<std::size_t> ZeroRedundancyOptimizer::Impl::parameter_of(const std::string& entry) const {
  const auto dot = entry.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  const auto found = index_of_.find(entry.substr(0, dot));
  return found == index_of_.end() ? std::nullopt : std::optional(found->second);
}

void ZeroRedundancyOptimizer::Impl::consolidate() {
  const at::NoGradGuard no_grad;
  StateDict whole;
  std::map<std::string, NamedTensors> kinds;  // the same on every rank, with an entry for every parameter
  for (const auto& [entry, value] : local_->state_dict()) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (tensor != nullptr && parameter_of(entry)) {
      kinds[entry.substr(entry.rfind('.') + 1)].emplace_back(entry, *tensor);
    } else {
      whole.emplace(entry, value);
    }
  }
  for (const auto& [kind, entries] : kinds) gather_kind(kind, entries, whole);
  if (group_->rank() == 0) whole_ = std::move(whole);
}

/// Gathers one kind of entry for all parameters on rank 0, in host memory. Each rank copies its tensors there one by
/// one: a GPU may have room for its own part but not for all parts.
void ZeroRedundancyOptimizer::Impl::gather_kind(const std::string& kind, const NamedTensors& entries,
                                                StateDict& whole) const {
  std::map<std::size_t, at::Tensor> by_parameter;
  for (const auto& [entry, value] : entries) by_parameter[*parameter_of(entry)] = value;
  for (const ZeroGroup& group : layout_.groups()) {
    // All ranks send blocks of equal size, although the last parts may be shorter.
    const std::int64_t block = shard_of(group.layout.numel, group_->world_size(), 0).size();
    const auto dtype = by_parameter.at(group.members.front()).scalar_type();
    const at::Tensor own = at::zeros({block}, at::TensorOptions(dtype));
    for (const std::size_t index : group.members) {
      const parallel::ZeroPart& part = layout_.parts()[index];
      const std::int64_t begin = group.layout.slots[part.slot].offset + part.begin - group.own.begin;
      if (part.length > 0) own.narrow(0, begin, part.length).copy_(by_parameter.at(index));
    }
    std::vector<at::Tensor> blocks;
    group_->gather(own, blocks, 0).wait();
    if (group_->rank() != 0) continue;
    const at::Tensor flat = at::cat(blocks);
    for (const std::size_t index : group.members) {
      const auto& slot = group.layout.slots[layout_.parts()[index].slot];
      whole.emplace(slot.name + "." + kind, tensor::flat_view(flat, slot));
    }
  }
}

StateDict ZeroRedundancyOptimizer::Impl::state_dict() const {
  if (whole_) return *whole_;
  throw UsageError(group_->rank() == 0 ? "the sharded optimizer's state has not been consolidated since its last step"
                                       : "only rank 0 has the whole state of a sharded optimizer",
                   "call consolidate_state_dict() on every rank, then state_dict() on rank 0");
}

StatePart ZeroRedundancyOptimizer::Impl::state_part() const {
  StatePart own;
  for (const auto& [entry, value] : local_->state_dict()) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    const auto index = parameter_of(entry);
    if (tensor == nullptr || !index) {
      if (group_->rank() == 0) own.entries[entry] = value;
      continue;
    }
    const at::Tensor& parameter = parameters_[*index].second;
    if (tensor->numel() == 0 && (parameter.numel() > 0 || group_->rank() != 0)) continue;
    own.entries[entry] = *tensor;
    own.slices[entry] = {
        .begin = layout_.parts()[*index].begin, .shape = parameter.sizes().vec(), .strides = parameter.strides().vec()};
  }
  return own;
}

/// Throws: DataError if a tensor does not have its parameter's shape.
StateDict ZeroRedundancyOptimizer::Impl::own_part_of(const StateDict& state) const {
  StateDict own = state;
  for (auto& [entry, value] : own) {
    auto* tensor = std::get_if<at::Tensor>(&value);
    const auto index = parameter_of(entry);
    if (tensor == nullptr || !index) continue;
    const at::Tensor& parameter = parameters_[*index].second;
    if (tensor->sizes() != parameter.sizes()) {
      throw DataError(fmt::format("'{}' is [{}] in the saved state but [{}] here", entry,
                                  fmt::join(tensor->sizes(), ", "), fmt::join(parameter.sizes(), ", ")),
                      "does it belong to another model?");
    }
    value = layout_.part_of(layout_.in_memory_order(*tensor, *index), *index);
  }
  return own;
}

void ZeroRedundancyOptimizer::Impl::load(const StateDict& state) {
  const at::NoGradGuard no_grad;
  local_->load_state_dict(own_part_of(state));
  whole_.reset();
}

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(NamedTensors parameters, ProcessGroup& group, const Make& make,
                                                 std::shared_ptr<parallel::Reducer> reducer, parallel::GroupOwner owner)
    : impl_(std::make_unique<Impl>(std::move(parameters), group, make, std::move(reducer), std::move(owner))) {}

void ZeroRedundancyOptimizer::throw_no_reducer() {
  throw UsageError("ZeroOptions::shard_gradients needs a DistributedDataParallel",
                   "pass the wrapped model, or do not shard the gradients");
}

ZeroRedundancyOptimizer::~ZeroRedundancyOptimizer() = default;
ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(ZeroRedundancyOptimizer&&) noexcept = default;
ZeroRedundancyOptimizer& ZeroRedundancyOptimizer::operator=(ZeroRedundancyOptimizer&&) noexcept = default;

void ZeroRedundancyOptimizer::step(double grad_scale) { impl_->step(grad_scale); }
void ZeroRedundancyOptimizer::set_lr(double lr) { impl_->local().set_lr(lr); }
double ZeroRedundancyOptimizer::lr() const { return impl_->local().lr(); }
std::int64_t ZeroRedundancyOptimizer::steps() const { return impl_->local().steps(); }
const NamedTensors& ZeroRedundancyOptimizer::parameters() const { return impl_->parameters(); }
double ZeroRedundancyOptimizer::grad_norm() { return impl_->grad_norm(); }
void ZeroRedundancyOptimizer::digest_updates(const std::vector<std::int64_t>& /*begins*/) { impl_->digest_updates(); }
std::optional<UpdateDigest> ZeroRedundancyOptimizer::update_digest() const { return impl_->local().update_digest(); }
void ZeroRedundancyOptimizer::consolidate_state_dict() { impl_->consolidate(); }
StateDict ZeroRedundancyOptimizer::state_dict() const { return impl_->state_dict(); }
StatePart ZeroRedundancyOptimizer::state_part(int /*rank*/, int /*world_size*/) const { return impl_->state_part(); }
void ZeroRedundancyOptimizer::load_state_dict(const StateDict& state) { impl_->load(state); }
const Optimizer& ZeroRedundancyOptimizer::local() const { return impl_->local(); }

}  // namespace lockstep
