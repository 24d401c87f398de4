// SPDX-License-Identifier: Apache-2.0
// A table of the names of a network's tensors in another program, used in both directions.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::common {

/// A row of the table. A name that ends in '.' matches all names that begin with it, and each '*' matches text without
/// a dot: the n-th '*' is the same text on both sides.
struct OriginName {
  std::vector<std::string> theirs;  ///< the original names; several tensors are joined as rows here, in this order
  std::string here;  ///< the network's name; if empty, the entry is dropped, because the network computes the tensor
};

/// The table of a network. The first row that matches a name is used.
class OriginNames {
 public:
  /// `origin`: the name of the program, for notes.
  OriginNames(std::string origin, std::vector<OriginName> rows);

  /// Renames entries of `weights` to the network's names; entries whose names are already in `model` keep them. Returns
  /// a sentence describing the change, for a note; nothing if nothing changed.
  /// Throws: DataError naming the entries if parts of one tensor cannot be joined.
  std::vector<std::string> take(StateDict& weights, const NamedTensors& model) const;

  /// Returns the network's entries under the original names, splitting a joined tensor into equal parts. Others keep
  /// their names.
  [[nodiscard]] StateDict give(const StateDict& model) const;

 private:
  std::string origin_;
  std::vector<OriginName> rows_;
};

}  // namespace lockstep::common
