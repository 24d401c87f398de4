// SPDX-License-Identifier: Apache-2.0
// The parts that all optimizers share: flat state, the choice of kernels or libtorch operators, and strict loading.
#include "lockstep/optim/flat_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <map>
#include <optional>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/tensor/flat_layout.h"
#include "lockstep/tensor/sharing.h"
#include "optim/digest.h"
#include "optim/foreach.h"
#include "optim/setup.h"

namespace lockstep {
namespace {

void check_dtypes(const NamedTensors& parameters) {
  for (const auto& [name, value] : parameters) {
    if (value.scalar_type() == at::kFloat || value.scalar_type() == at::kDouble) continue;
    throw UsageError(fmt::format("parameter '{}' is {}", name, c10::toString(value.scalar_type())),
                     value.requires_grad()
                         ? "keep weights in float32 and compute in lower precision with lockstep::Autocast"
                         : "pass the optimizer only the parameters that train: this one is frozen");
  }
}

/// Returns `grad` in the parameter's memory order: `grad` itself, unless the user has set it with a different layout.
at::Tensor in_layout_of(const at::Tensor& parameter, const at::Tensor& grad) {
  if (grad.strides() == parameter.strides()) return grad;
  return at::empty_strided(parameter.sizes(), parameter.strides(), parameter.options()).copy_(grad);
}

/// Records a change in place for autograd, which sees the writes of neither kernels nor libtorch's fused operators.
void note_change(const at::Tensor& parameter) {
  if (!parameter.is_inference()) parameter.unsafeGetTensorImpl()->bump_version();  // an inference tensor has no version
}

/// One parameter's state and group.
struct Slot {
  std::vector<at::Tensor> state = {};  ///< views of the flat state, by kind, with the parameter's strides
  std::vector<std::int64_t> strides = {};
  std::size_t group = 0;
  bool decay = true;
  std::int64_t steps = 0;
};

/// The factor applied to each gradient: a number, or a scalar on the parameters' device.
struct GradScale {
  double number = 1;
  at::Tensor on_device = {};  ///< if undefined, `number` is the factor
};

/// The properties that parameters must share to be updated together.
using BatchKey = std::tuple<std::size_t, bool, std::int64_t, bool, at::ScalarType, c10::DeviceType, int>;

std::vector<std::string> names_of(const NamedTensors& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.first);
  return names;
}

}  // namespace

class FlatOptimizer::Impl {
 public:
  Impl(NamedTensors parameters, optim::Setup setup);

  void step(const GradScale& grad_scale);
  void set_lr(double lr);
  [[nodiscard]] double lr_of(const optim::Group& group) const {
    if (!group.has_own_lr) return lr_;
    return group.own_lr == 0 ? 0 : group.own_lr * (lr_ / setup_.groups.front().own_lr);
  }
  [[nodiscard]] std::vector<GroupState> groups() const;
  [[nodiscard]] StateDict state_dict() const;
  void load(const StateDict& state);

  [[nodiscard]] double lr() const { return lr_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] const NamedTensors& parameters() const { return parameters_; }
  [[nodiscard]] const optim::Rule& rule() const { return *setup_.groups.front().rule; }

  std::unique_ptr<optim::ParameterDigests> digests;  ///< null if updates are not digested

 private:
  void allocate();
  [[nodiscard]] optim::StepValues values_of(const Slot& slot, double grad_scale) const;
  void update_by_kernel(std::size_t index, double grad_scale) const;
  void update_together(const std::vector<std::size_t>& indices, const GradScale& grad_scale, bool dense) const;
  /// Throws: DataError if an entry is missing.
  std::vector<std::int64_t> take_steps(StateDict& state) const;

  NamedTensors parameters_;
  optim::Setup setup_;
  std::vector<optim::StateKind> kinds_;
  std::vector<Slot> slots_;
  double lr_;
  std::int64_t steps_ = 0;
};

FlatOptimizer::Impl::Impl(NamedTensors parameters, optim::Setup setup)
    : parameters_(tensor::without_repeats(std::move(parameters))),
      setup_(std::move(setup)),
      kinds_(rule().state()),
      slots_(parameters_.size()),
      lr_(setup_.groups.front().own_lr) {
  check_dtypes(parameters_);
  const std::vector<std::string> names = names_of(parameters_);
  const std::vector<std::size_t> group_of = optim::assign_groups(names, setup_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].group = group_of[i];
    slots_[i].decay = !setup_.no_decay || !setup_.no_decay(names[i]);
  }
  allocate();
}

/// Allocates one flat buffer per kind, dtype and device.
void FlatOptimizer::Impl::allocate() {
  std::map<std::string, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& value = parameters_[i].second;
    members[fmt::format("{} {}", c10::toString(value.scalar_type()), value.device().str())].push_back(i);
  }
  for (const auto& [key, indices] : members) {
    NamedTensors items;
    for (const std::size_t i : indices) items.push_back(parameters_[i]);
    const at::Tensor& any = items.front().second;
    const tensor::FlatLayout layout = tensor::flat_layout(items, any.scalar_type());
    for (std::size_t m = 0; m < indices.size(); ++m) slots_[indices[m]].strides = layout.slots[m].strides;
    for (const optim::StateKind& kind : kinds_) {
      const at::Tensor flat = at::full({layout.numel}, kind.start, any.options().requires_grad(false));
      for (std::size_t m = 0; m < indices.size(); ++m) {
        slots_[indices[m]].state.push_back(tensor::flat_view(flat, layout.slots[m]));
      }
    }
  }
}

void FlatOptimizer::Impl::step(const GradScale& grad_scale) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, value] : parameters_) {
    if (!value.grad().defined() || !value.grad().is_sparse()) continue;
    throw UsageError(fmt::format("the gradient of '{}' is sparse, which {} does not support", name, setup_.optimizer));
  }
  ++steps_;
  if (digests) digests->clear();
  std::map<BatchKey, std::vector<std::size_t>> batches;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& value = parameters_[i].second;
    if (!value.grad().defined()) {
      if (digests) digests->add_weights(parameters_, i);
      continue;
    }
    Slot& slot = slots_[i];
    ++slot.steps;
    if (value.numel() == 0) continue;
    note_change(value);
    const bool dense = value.strides() == slot.strides;
    if (dense && value.scalar_type() == at::kFloat && value.device().is_cpu()) {
      update_by_kernel(i, grad_scale.number);
    } else {
      batches[{slot.group, slot.decay, slot.steps, dense, value.scalar_type(), value.device().type(),
               value.device().index()}]
          .push_back(i);
    }
  }
  for (const auto& [key, indices] : batches) update_together(indices, grad_scale, std::get<3>(key));
}

optim::StepValues FlatOptimizer::Impl::values_of(const Slot& slot, double grad_scale) const {
  const optim::Group& group = setup_.groups[slot.group];
  return {.lr = lr_of(group),
          .weight_decay = slot.decay ? group.weight_decay : 0.0,
          .step = slot.steps,
          .grad_scale = grad_scale};
}

void FlatOptimizer::Impl::update_by_kernel(std::size_t index, double grad_scale) const {
  const at::Tensor& parameter = parameters_[index].second;
  const Slot& slot = slots_[index];
  const at::Tensor grad = in_layout_of(parameter, parameter.grad());
  optim::Memory memory{.parameter = parameter.data_ptr<float>(),
                       .grad = grad.data_ptr<float>(),
                       .count = parameter.numel(),
                       .digest = digests ? digests->into(index) : optim::DigestInto{}};
  for (std::size_t kind = 0; kind < slot.state.size(); ++kind) {
    memory.state[kind] = slot.state[kind].data_ptr<float>();
  }
  setup_.groups[slot.group].rule->update(memory, values_of(slot, grad_scale));
}

void FlatOptimizer::Impl::update_together(const std::vector<std::size_t>& indices, const GradScale& grad_scale,
                                          bool dense) const {
  optim::TensorLists lists;
  lists.state.resize(kinds_.size());
  for (const std::size_t i : indices) {
    const at::Tensor& parameter = parameters_[i].second;
    lists.parameters.push_back(parameter);
    lists.grads.push_back(dense ? in_layout_of(parameter, parameter.grad()) : parameter.grad());
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) lists.state[kind].push_back(slots_[i].state[kind]);
  }
  if (grad_scale.on_device.defined()) {
    lists.grads = optim::scaled_all(lists.grads, grad_scale.on_device);
  } else if (grad_scale.number != 1.0) {
    lists.grads = at::_foreach_mul(lists.grads, grad_scale.number);
  }
  const Slot& any = slots_[indices.front()];
  const optim::Rule& rule = *setup_.groups[any.group].rule;
  const c10::DeviceType device = lists.parameters.front().device().type();
  // On the CPU an operator may round vectors and remaining elements differently, so the bits would depend on the
  // layout.
  if (dense && device == c10::kCUDA && rule.has_fused(device)) {
    rule.update_fused(lists, values_of(any, 1.0));
  } else {
    rule.update_all(lists, values_of(any, 1.0));
  }
  if (!digests) return;
  // Operators on whole tensors leave nothing in the cache, so the digest rereads gradients and weights.
  for (const std::size_t i : indices) {
    digests->add_gradient(in_layout_of(parameters_[i].second, parameters_[i].second.grad()), i);
    digests->add_weights(parameters_, i);
  }
}

void FlatOptimizer::Impl::set_lr(double lr) {
  optim::require_not_negative({setup_.optimizer.c_str(), "lr", lr});
  lr_ = lr;
}

std::vector<GroupState> FlatOptimizer::Impl::groups() const {
  std::vector<GroupState> states;
  for (const optim::Group& group : setup_.groups) {
    states.push_back({.pattern = group.pattern, .lr = lr_of(group), .weight_decay = group.weight_decay});
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) states[slots_[i].group].parameters.push_back(parameters_[i].first);
  return states;
}

StateDict FlatOptimizer::Impl::state_dict() const {
  StateDict state{{"step", steps_}};
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::string& name = parameters_[i].first;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      state.emplace(name + "." + kinds_[kind].name, slots_[i].state[kind]);
    }
    if (slots_[i].steps != steps_) state.emplace(name + ".step", slots_[i].steps);
  }
  return state;
}

/// Removes the step counts from `state` and returns them: the optimizer's first, then one for each parameter.
std::vector<std::int64_t> FlatOptimizer::Impl::take_steps(StateDict& state) const {
  const auto take = [&state](const std::string& key, std::optional<std::int64_t> missing) {
    const auto found = state.find(key);
    if (found == state.end() && missing) return *missing;
    const auto* steps = found == state.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    if (steps == nullptr || *steps < 0) throw DataError(fmt::format("the optimizer's state has no count '{}'", key));
    const std::int64_t value = *steps;
    state.erase(found);
    return value;
  };
  std::vector<std::int64_t> steps{take("step", std::nullopt)};
  for (const auto& item : parameters_) steps.push_back(take(item.first + ".step", steps.front()));
  return steps;
}

void FlatOptimizer::Impl::load(const StateDict& state) {
  StateDict tensors = state;
  const std::vector<std::int64_t> steps = take_steps(tensors);
  NamedTensors into;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      into.emplace_back(parameters_[i].first + "." + kinds_[kind].name, slots_[i].state[kind]);
    }
  }
  load_tensors(into, tensors);
  steps_ = steps.front();
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].steps = steps[i + 1];
}

FlatOptimizer::FlatOptimizer(NamedTensors parameters, optim::Setup setup)
    : impl_(std::make_unique<Impl>(std::move(parameters), std::move(setup))) {}
FlatOptimizer::~FlatOptimizer() = default;
FlatOptimizer::FlatOptimizer(FlatOptimizer&&) noexcept = default;
FlatOptimizer& FlatOptimizer::operator=(FlatOptimizer&&) noexcept = default;

void FlatOptimizer::step(double grad_scale) {
  RECORD_FUNCTION("lockstep::optimizer_step", c10::ArrayRef<const c10::IValue>());
  impl_->step({.number = grad_scale});
  note_update();
}

void FlatOptimizer::step_scaled_by(const at::Tensor& grad_scale) {
  if (!optim::on_one_gpu(parameters()) || grad_scale.is_cpu()) return step(grad_scale.item<double>());
  RECORD_FUNCTION("lockstep::optimizer_step", c10::ArrayRef<const c10::IValue>());
  impl_->step({.on_device = grad_scale});
  note_update();
}

void FlatOptimizer::note_update() const {
  if (!tensor::watches_sharing()) return;
  std::int64_t bytes = 0;
  for (const auto& item : impl_->parameters()) bytes += static_cast<std::int64_t>(item.second.nbytes());
  tensor::note_step(bytes);
}
void FlatOptimizer::set_lr(double lr) { impl_->set_lr(lr); }
double FlatOptimizer::lr() const noexcept { return impl_->lr(); }
std::vector<GroupState> FlatOptimizer::groups() const { return impl_->groups(); }
std::int64_t FlatOptimizer::steps() const noexcept { return impl_->steps(); }
const NamedTensors& FlatOptimizer::parameters() const noexcept { return impl_->parameters(); }
bool FlatOptimizer::elementwise() const noexcept { return impl_->rule().elementwise(); }
void FlatOptimizer::digest_updates(const std::vector<std::int64_t>& begins) {
  impl_->digests = std::make_unique<optim::ParameterDigests>(parameters(), begins);
}
std::optional<UpdateDigest> FlatOptimizer::update_digest() const {
  return impl_->digests ? std::optional(impl_->digests->get()) : std::nullopt;
}
StateDict FlatOptimizer::state_dict() const { return impl_->state_dict(); }
void FlatOptimizer::load_state_dict(const StateDict& state) { impl_->load(state); }

}  // namespace lockstep
