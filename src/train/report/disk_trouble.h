// SPDX-License-Identifier: Apache-2.0
// The refusals of the run folder's disk. Without a place to save elsewhere they end the run at once. With one
// (TrainerOptions::rescue) the run trains on to a step that all ranks agree on, and is saved there.
#pragma once

#include <optional>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {

/// Keeps the disk errors of a rank; rank 0 writes most. It belongs to the training thread.
class DiskTrouble {
 public:
  explicit DiskTrouble(bool has_rescue) : has_rescue_(has_rescue) {}

  /// Runs `work`. With a rescue, the first IoError is kept instead of thrown. Throws: every other error of `work`.
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
  /// Call it only if any().
  [[nodiscard]] const IoError& first() const { return *first_; }

 private:
  bool has_rescue_;
  std::optional<IoError> first_;
};

}  // namespace lockstep::train
