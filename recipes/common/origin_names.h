// SPDX-License-Identifier: Apache-2.0
// The names that another program has for a network's tensors: a table, read in both directions.
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
  /// `origin`: what the program is called, for notes.
  OriginNames(std::string origin, std::vector<OriginName> rows);

  /// Gives entries of `weights` the names that they have here; those that `model` has already stay. Returns what was
  /// done, a sentence for a note; none where nothing was.
  /// Throws: DataError naming the entries where parts of one tensor cannot be put together.
  std::vector<std::string> take(StateDict& weights, const NamedTensors& model) const;

  /// Returns the network's entries under the origin's names, a tensor of several parts cut into equal ones. Entries of
  /// no row keep their name.
  [[nodiscard]] StateDict give(const StateDict& model) const;

 private:
  std::string origin_;
  std::vector<OriginName> rows_;
};

}  // namespace lockstep::common
