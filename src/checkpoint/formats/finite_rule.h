// SPDX-License-Identifier: Apache-2.0
// Decides which values that are not finite make a checkpoint useless for any run. Pure, no torch here.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "checkpoint/formats/finite_bits.h"

namespace lockstep::checkpoint {

/// NaN is wrong in every floating tensor of a model, an optimizer and an average. An infinity is wrong in learnt
/// entries (and their average), in an optimizer and in the running statistics of a norm. Other entries, such as the
/// mask of an attention, may be infinite.
class FiniteRule {
 public:
  /// `learnt`: entries of the model that are known to be learnt. add() finds others.
  explicit FiniteRule(std::set<std::string> learnt = {}) : learnt_(std::move(learnt)) {}

  /// Returns true for the states that have to be finite: those whose names begin with "model", "optimizer" or "ema".
  [[nodiscard]] static bool looks_at(std::string_view state);

  /// Notes that a state has this floating tensor. If it is an optimizer's, the parameter that it belongs to is learnt.
  void add(std::string_view state, const std::string& entry);

  /// Returns true if the entry of a checked state is spoilt. Call it after all add().
  [[nodiscard]] bool is_spoilt(std::string_view state, const std::string& entry, const NotFiniteCount& found) const;

 private:
  [[nodiscard]] bool may_be_infinite(const std::string& entry) const;

  std::set<std::string> learnt_;
  std::set<std::string> moments_;  ///< the entries of optimizers: "fc.weight.exp_avg"
};

/// The spoilt entries, in words.
class NotFiniteWords {
 public:
  void add(std::string_view state, const std::string& entry, const NotFiniteCount& found, std::int64_t elements);

  /// Returns "model/fc.weight is not finite (3 of 64 elements), nor are 2 other tensors"; "" if there is none.
  [[nodiscard]] std::string text() const;

 private:
  std::string first_;
  std::int64_t others_ = -1;
};

}  // namespace lockstep::checkpoint
