// SPDX-License-Identifier: Apache-2.0
// A run's digests.bin, read while it grows: each record once.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/view/digest_chain.h"

namespace lockstep::dashboard {

/// It belongs to one thread at a time.
class DigestFile {
 public:
  explicit DigestFile(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Reads the new records; all of them again if a run that resumed has cut the file.
  void update();
  /// Returns the chain; null: the run has none.
  [[nodiscard]] const view::DigestChain* chain() const { return chain_ ? &*chain_ : nullptr; }
  /// Returns {"steps", "first", "last"}; null: the run has no digests.
  [[nodiscard]] nlohmann::json state() const;

 private:
  std::filesystem::path folder_;
  std::optional<view::DigestChain> chain_;
  std::string last_;  ///< the bytes of the last record
};

/// Returns {"equal", "steps", "step", "differs"}: the number of steps that both have; the first that differs and its
/// difference, null if they are equal.
[[nodiscard]] nlohmann::json compare_chains(const view::DigestChain& a, const view::DigestChain& b);

}  // namespace lockstep::dashboard
