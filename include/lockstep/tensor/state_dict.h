// SPDX-License-Identifier: Apache-2.0
// StateDict: named tensors and plain values in name order. Every part of a run keeps its state in this form. Keys are
//            parameter names, never addresses or indices.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#pragma GCC visibility push(default)

namespace lockstep {

/// The value of an entry. A StateDict shares its tensors with the model: clone a tensor to keep it past the next step.
using StateValue = std::variant<at::Tensor, std::int64_t, double, bool, std::string>;

/// Entries in name order, so that files and digests do not depend on the order of insertion.
using StateDict = std::map<std::string, StateValue>;

/// An object that a checkpoint saves. state_dict() is local: it is never a collective.
class Stateful {
 public:
  virtual ~Stateful() = default;
  /// Returns the state, which load_state_dict() restores.
  [[nodiscard]] virtual StateDict state_dict() const = 0;
  /// Copies the entries in. Throws: DataError naming the first entry that is missing, unknown or of a different shape
  /// or dtype.
  virtual void load_state_dict(const StateDict& state) = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
