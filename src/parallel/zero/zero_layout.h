// SPDX-License-Identifier: Apache-2.0
// The ranks' parts: the flat memory of all parameters, divided into one range for each rank.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/flat_layout.h"
#include "lockstep/tensor/named_tensors.h"

namespace lockstep::parallel {

/// The parameters of one dtype and device, in one flat tensor.
struct ZeroGroup {
  std::vector<std::size_t> members = {};  ///< indices of parameters
  tensor::FlatLayout layout = {};
  at::Tensor flat = {};
  ElementRange own = {};  ///< this rank's range
};

/// This rank's part of a parameter, which may be empty.
struct ZeroPart {
  std::size_t group = 0;
  std::size_t slot = 0;    ///< slot in the group's layout
  std::int64_t begin = 0;  ///< first element in the parameter's memory
  std::int64_t length = 0;
};

/// Returns `taken`, then groups of the other parameters' indices by dtype and device.
[[nodiscard]] std::vector<std::vector<std::size_t>> groups_by_kind(const NamedTensors& parameters,
                                                                   std::vector<std::vector<std::size_t>> taken = {});

class ZeroLayout {
 public:
  /// Moves the parameters' values into flat memory, one tensor for each of `groups` (indices of parameters of one dtype
  /// and device), and makes the parameters views of it.
  /// Throws: UsageError naming a parameter that is not dense.
  ZeroLayout(const NamedTensors& parameters, std::vector<std::vector<std::size_t>> groups, int world, int rank);

  [[nodiscard]] const std::vector<ZeroGroup>& groups() const { return groups_; }
  /// Returns this rank's part of each parameter.
  [[nodiscard]] const std::vector<ZeroPart>& parts() const { return parts_; }

  /// Returns this rank's part of `tensor`, which has the memory order of parameter `index`, as a one-dimensional view.
  [[nodiscard]] at::Tensor part_of(const at::Tensor& tensor, std::size_t index) const;
  /// Returns this rank's part of the parameter itself.
  [[nodiscard]] at::Tensor own_part(std::size_t index) const;
  /// Returns `tensor`, or a copy, with the strides of parameter `index`.
  [[nodiscard]] at::Tensor in_memory_order(const at::Tensor& tensor, std::size_t index) const;
  /// Returns true while the parameter is a view of its place in flat memory.
  [[nodiscard]] bool is_in_place(const at::Tensor& parameter, std::size_t index) const;

 private:
  [[nodiscard]] const tensor::FlatSlot& slot_of(std::size_t index) const;

  std::vector<ZeroGroup> groups_;
  std::vector<ZeroPart> parts_;
};

}  // namespace lockstep::parallel
