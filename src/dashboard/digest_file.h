// SPDX-License-Identifier: Apache-2.0
// Reads a run's digests.bin as it grows, each record once.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/view/digest_chain.h"

namespace lockstep::dashboard {

/// Only one thread at a time may use it.
class DigestFile {
 public:
  explicit DigestFile(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Reads the new records, or all records again if a resumed run has truncated the file.
  void update();
  /// Returns the chain; null if the run has none.
  [[nodiscard]] const view::DigestChain* chain() const { return chain_ ? &*chain_ : nullptr; }
  /// Returns {"steps", "first", "last"}; null if the run has no digests.
  [[nodiscard]] nlohmann::json state() const;

 private:
  std::filesystem::path folder_;
  std::optional<view::DigestChain> chain_;
  std::string last_;  ///< the bytes of the last record
};

/// Returns {"equal", "steps", "step", "differs"}: the number of steps that both have; the first different step and its
/// difference, null if there is none.
[[nodiscard]] nlohmann::json compare_chains(const view::DigestChain& a, const view::DigestChain& b);

}  // namespace lockstep::dashboard
