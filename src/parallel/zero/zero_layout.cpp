// SPDX-License-Identifier: Apache-2.0
#include "parallel/zero/zero_layout.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

/// Returns elements begin, ..., begin + length - 1 of the tensor's memory. It is not a view in autograd's sense (see
/// flat_view).
at::Tensor memory_range(const at::Tensor& tensor, std::int64_t begin, std::int64_t length) {
  const at::NoGradGuard no_grad;
  return at::empty({0}, tensor.options().requires_grad(false))
      .set_(tensor.storage(), tensor.storage_offset() + begin, {length}, {1});
}

}  // namespace

std::vector<std::vector<std::size_t>> groups_by_kind(const NamedTensors& parameters,
                                                     std::vector<std::vector<std::size_t>> taken) {
  std::set<std::size_t> done;
  for (const auto& members : taken) done.insert(members.begin(), members.end());
  std::map<std::string, std::vector<std::size_t>> kinds;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& value = parameters[i].second;
    if (done.contains(i)) continue;
    kinds[fmt::format("{} {}", c10::toString(value.scalar_type()), value.device().str())].push_back(i);
  }
  for (auto& [kind, members] : kinds) taken.push_back(std::move(members));
  return taken;
}

ZeroLayout::ZeroLayout(const NamedTensors& parameters, std::vector<std::vector<std::size_t>> groups, int world,
                       int rank)
    : parts_(parameters.size()) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, value] : parameters) {
    if (value.is_non_overlapping_and_dense()) continue;
    throw UsageError(fmt::format("parameter '{}' is not dense in memory, but ZeRO needs dense parameters", name),
                     "make the parameter contiguous before passing it to the optimizer");
  }
  for (std::vector<std::size_t>& members : groups) {
    NamedTensors items;
    for (const std::size_t index : members) items.push_back(parameters[index]);
    const at::Tensor& any = items.front().second;
    ZeroGroup group{.members = std::move(members), .layout = tensor::flat_layout(items, any.scalar_type())};
    group.flat = at::zeros({group.layout.numel}, any.options().requires_grad(false));
    group.own = shard_of(group.layout.numel, world, rank);
    for (std::size_t slot = 0; slot < items.size(); ++slot) {
      const tensor::FlatSlot& place = group.layout.slots[slot];
      const at::Tensor view = tensor::flat_view(group.flat, place);
      view.copy_(items[slot].second);
      at::Tensor parameter = items[slot].second;
      parameter.set_data(view);
      const std::int64_t begin = std::clamp<std::int64_t>(group.own.begin - place.offset, 0, place.numel);
      const std::int64_t end = std::clamp<std::int64_t>(group.own.end - place.offset, 0, place.numel);
      parts_[group.members[slot]] = {.group = groups_.size(), .slot = slot, .begin = begin, .length = end - begin};
    }
    groups_.push_back(std::move(group));
  }
}

const tensor::FlatSlot& ZeroLayout::slot_of(std::size_t index) const {
  return groups_[parts_[index].group].layout.slots[parts_[index].slot];
}

at::Tensor ZeroLayout::part_of(const at::Tensor& tensor, std::size_t index) const {
  return memory_range(tensor, parts_[index].begin, parts_[index].length);
}

at::Tensor ZeroLayout::own_part(std::size_t index) const {
  return memory_range(groups_[parts_[index].group].flat, slot_of(index).offset + parts_[index].begin,
                      parts_[index].length);
}

at::Tensor ZeroLayout::in_memory_order(const at::Tensor& tensor, std::size_t index) const {
  const tensor::FlatSlot& slot = slot_of(index);
  if (tensor.strides() == slot.strides && tensor.is_non_overlapping_and_dense()) return tensor;
  return at::empty_strided(slot.sizes, slot.strides, tensor.options().requires_grad(false)).copy_(tensor);
}

bool ZeroLayout::is_in_place(const at::Tensor& parameter, std::size_t index) const {
  const at::Tensor& flat = groups_[parts_[index].group].flat;
  return parameter.scalar_type() == flat.scalar_type() && parameter.storage().is_alias_of(flat.storage()) &&
         parameter.storage_offset() == slot_of(index).offset && parameter.strides() == slot_of(index).strides;
}

}  // namespace lockstep::parallel
