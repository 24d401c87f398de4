// SPDX-License-Identifier: Apache-2.0
// The names of a network's tensors in another program: a table, read in both directions.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <string>
#include <vector>

#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::common {

/// A row of the table. A name that ends in '.' means all that begin with it, and each '*' is some text without a dot:
/// the n-th of one side is the n-th of the other.
struct OriginName {
  std::vector<std::string> theirs;  ///< in the origin's files; several are the rows of one tensor here, in this order
  std::string here;                 ///< in the network; empty: it is computed here, and the entry is dropped
};

/// The table of a network. The first row that fits a name counts.
class OriginNames {
 public:
  /// `origin`: the name of the program, for notes.
  OriginNames(std::string origin, std::vector<OriginName> rows);

  /// Renames entries of `weights` to their names here; those that `model` has already stay. Returns a description of
  /// the change, a sentence for a note; none if nothing changed.
  /// Throws: DataError naming the entries if parts of one tensor cannot be joined.
  std::vector<std::string> take(StateDict& weights, const NamedTensors& model) const;

  /// Returns the network's entries under the origin's names, tensors of several parts cut equally. Others keep theirs.
  [[nodiscard]] StateDict give(const StateDict& model) const;

 private:
  std::string origin_;
  std::vector<OriginName> rows_;
};

}  // namespace lockstep::common
