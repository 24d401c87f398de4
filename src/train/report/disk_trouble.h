// SPDX-License-Identifier: Apache-2.0
// Failed writes to the run folder. Without TrainerOptions::rescue, they end the run immediately. With it, the run
// continues up to a step that all ranks agree on and is saved in the rescue folder.
#pragma once

#include <optional>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {

/// Keeps the first disk error of a rank; most writes are from rank 0. Owned by the training thread.
class DiskTrouble {
 public:
  explicit DiskTrouble(bool has_rescue) : has_rescue_(has_rescue) {}

  /// Runs `work`. With a rescue folder, the first IoError is kept instead of thrown. Throws: any other error.
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
  /// Returns the error that was kept. Call only if any().
  [[nodiscard]] const IoError& first() const { return *first_; }

 private:
  bool has_rescue_;
  std::optional<IoError> first_;
};

}  // namespace lockstep::train
