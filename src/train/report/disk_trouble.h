// SPDX-License-Identifier: Apache-2.0
// What the run folder's disk has refused. Without a place to save elsewhere it ends the run at once. With one
// (TrainerOptions::rescue) the run trains on to a step that all ranks agree on, and is saved there.
#pragma once

#include <optional>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {

/// One for each rank; rank 0 writes most. Owned by the training thread.
class DiskTrouble {
 public:
  explicit DiskTrouble(bool has_rescue) : has_rescue_(has_rescue) {}

  /// Does `work`. With a rescue an IoError is kept, the first one, instead of thrown. Throws: what `work` throws else.
  template <class Work>
  void guard(Work&& work) {
    try {
      std::forward<Work>(work)();
    } catch (const IoError& error) {
      if (!has_rescue_) throw;
      if (!first_) first_ = error;
    }
  }

  [[nodiscard]] bool any() const { return first_.has_value(); }
  /// Where any().
  [[nodiscard]] const IoError& first() const { return *first_; }

 private:
  bool has_rescue_;
  std::optional<IoError> first_;
};

}  // namespace lockstep::train
