// SPDX-License-Identifier: Apache-2.0
// Averages the entries by their types, and swaps two models' values in place.
#include "lockstep/optim/ema.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/tensor/threads.h"
#include "optim/ema_kernel.h"
#include "optim/foreach.h"

namespace lockstep {
namespace {

constexpr std::int64_t kAveragedPerThread = 1 << 16;
// The name of an entry in addition to the model's. A model that has it (an entry `updates` in a module `ema`) is
// rejected.
constexpr const char* kUpdates = "ema.updates";

void require_decay(double decay) {
  if (!(decay >= 0 && decay < 1))
    throw UsageError(fmt::format("EMA's decay is {}; it must be 0 or more, below 1", decay));
}

/// Returns true if both tensors are in plain memory in the same layout.
bool alike_in_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() && b.is_cpu() && a.scalar_type() == b.scalar_type() && a.is_non_overlapping_and_dense() &&
         a.strides() == b.strides();
}

/// Collects the entries on devices, so that one launch of an operator updates hundreds of entries.
class OnDevices {
 public:
  void add(const at::Tensor& average, const at::Tensor& value) {
    const std::pair<int, at::ScalarType> kind(value.device().index(), value.scalar_type());
    Lists& lists = value.is_floating_point() ? averaged_[kind] : copied_;
    lists.into.push_back(average);
    lists.from.push_back(value);
  }
  void update(double decay) const {
    for (const auto& [kind, lists] : averaged_) optim::move_towards_all(lists.into, lists.from, 1 - decay);
    optim::copy_all(copied_.into, copied_.from);
  }

 private:
  struct Lists {
    optim::Tensors into = {};
    optim::Tensors from = {};
  };

  std::map<std::pair<int, at::ScalarType>, Lists> averaged_;  ///< entries by device index and dtype
  Lists copied_;
};

void average(const at::Tensor& average, const at::Tensor& value, double decay) {
  if (!value.is_floating_point()) {
    average.copy_(value);
    return;
  }
  if (value.scalar_type() != at::kFloat || !alike_in_memory(average, value)) {
    average.mul_(decay).add_(value.mul(1 - decay));
    return;
  }
  auto* averages = average.data_ptr<float>();
  const auto* values = value.data_ptr<float>();
  const auto old_share = static_cast<float>(decay);
  const auto new_share = static_cast<float>(1 - decay);
  tensor::parallel_for(0, average.numel(), kAveragedPerThread, [&](std::int64_t begin, std::int64_t end) {
    optim::ema_update(averages + begin, values + begin, end - begin, old_share, new_share);
  });
}

void swap_memory(const at::Tensor& a, const at::Tensor& b) {
  std::array<char, 4096> block;
  auto* left = static_cast<char*>(a.data_ptr());
  auto* right = static_cast<char*>(b.data_ptr());
  for (std::size_t done = 0; done < a.nbytes(); done += block.size()) {
    const std::size_t size = std::min(block.size(), a.nbytes() - done);
    std::memcpy(block.data(), left + done, size);
    std::memcpy(left + done, right + done, size);
    std::memcpy(right + done, block.data(), size);
  }
}

/// Returns the first bytes of `scratch` as a tensor like `value`.
at::Tensor scratch_like(const at::Tensor& scratch, const at::Tensor& value) {
  const auto bytes = static_cast<std::int64_t>(value.nbytes());
  return scratch.narrow(0, 0, bytes).view(value.scalar_type()).view(value.sizes());
}

}  // namespace

EMA::EMA(NamedTensors model, EMAOptions options)
    : model_(tensor::without_repeats(model)), all_names_(std::move(model)), options_(options) {
  require_decay(options_.decay);
  if (!(options_.warmups >= 0))
    throw UsageError(fmt::format("EMA's warmups is {}; it must be 0 or more", options_.warmups));
  if (options_.start < 0) throw UsageError(fmt::format("EMA's start is {}; it must be 0 or more", options_.start));
  updates_ = -options_.start;
  for (const auto& [name, value] : model_) {
    if (name == kUpdates)
      throw UsageError(fmt::format("the model has an entry {}, a name that is reserved for EMA", name));
    averages_.emplace_back(name, value.detach().clone());
  }
  std::map<const void*, at::Tensor> average_of;
  for (std::size_t i = 0; i < model_.size(); ++i) {
    average_of[model_[i].second.unsafeGetTensorImpl()] = averages_[i].second;
  }
  for (auto& [name, value] : all_names_) value = average_of.at(value.unsafeGetTensorImpl());
}

void EMA::update() {
  RECORD_FUNCTION("lockstep::average_update", c10::ArrayRef<const c10::IValue>());
  require_own_values("updated");
  const at::NoGradGuard no_grad;
  if (++updates_ <= 0) return;
  const double risen = options_.warmups > 0 ? 1 - std::exp(-static_cast<double>(updates_) / options_.warmups) : 1;
  OnDevices on_devices;
  for (std::size_t i = 0; i < model_.size(); ++i) {
    if (model_[i].second.is_cpu()) {
      average(averages_[i].second, model_[i].second, options_.decay * risen);
    } else {
      on_devices.add(averages_[i].second, model_[i].second);
    }
  }
  on_devices.update(options_.decay * risen);
}

void EMA::set_decay(double decay) {
  require_decay(decay);
  options_.decay = decay;
}

void EMA::require_own_values(const char* what) const {
  if (swapped_)
    throw UsageError(fmt::format("EMA is {} while it is swapped in", what), "destroy the Swapped object first");
}

EMA::Swapped EMA::swap_in() {
  require_own_values("swapped in");
  std::map<std::string, std::pair<at::Device, std::int64_t>> largest;
  for (const auto& [name, value] : model_) {
    const auto bytes = static_cast<std::int64_t>(value.nbytes());
    auto& found = largest.try_emplace(value.device().str(), value.device(), 0).first->second;
    found.second = std::max(found.second, bytes);
  }
  for (const auto& [device, need] : largest) {
    scratch_[device] = at::empty({need.second}, at::TensorOptions(need.first).dtype(at::kByte));
  }
  swap_all();
  swapped_ = true;
  return Swapped(*this);
}

void EMA::swap_all() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < model_.size(); ++i) {
    const at::Tensor value = model_[i].second.detach();
    const at::Tensor& average = averages_[i].second;
    if (value.numel() == 0) continue;
    if (alike_in_memory(value, average)) {
      swap_memory(value, average);
      continue;
    }
    const at::Tensor scratch = scratch_like(scratch_.at(value.device().str()), value);
    scratch.copy_(value);
    value.copy_(average);
    average.copy_(scratch);
  }
}

EMA::Swapped::~Swapped() {
  if (ema_ == nullptr) return;
  try {
    ema_->swap_all();
    ema_->scratch_.clear();
    ema_->swapped_ = false;
  } catch (const std::exception& error) {
    // This happens only if a device fails; the average stays marked as swapped in.
    log::warn("the model's weights could not be restored: {}", error.what());
  }
}

StateDict EMA::state_dict() const {
  require_own_values("saved");
  StateDict state = to_state_dict(all_names_);
  state[kUpdates] = updates_;
  return state;
}

void EMA::load_state_dict(const StateDict& state) {
  require_own_values("loaded");
  const EMAState loaded = ema_state_of(state);
  load_tensors(all_names_, loaded.model);
  updates_ = loaded.updates;
}

EMAState ema_state_of(StateDict state) {
  const auto found = state.find(kUpdates);
  const auto* updates = found == state.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  if (updates == nullptr)
    throw DataError(fmt::format("the state has no whole number '{}': it is not the state of an EMA", kUpdates));
  EMAState parts{.updates = *updates};
  state.erase(found);
  parts.model = std::move(state);
  return parts;
}

}  // namespace lockstep
