// SPDX-License-Identifier: Apache-2.0
// Decides which non-finite values make a checkpoint useless. The code is pure and does not use libtorch.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "checkpoint/formats/finite_bits.h"

namespace lockstep::checkpoint {

/// NaN is wrong in every floating-point tensor of a model, an optimizer and a weight average. An infinity is wrong in
/// learnt entries (and their average), in an optimizer and in the running statistics of a norm layer. Other entries,
/// such as an attention mask, may be infinite.
class FiniteRule {
 public:
  /// `learnt` are entries of the model that are known to be learnt; add() finds more.
  explicit FiniteRule(std::set<std::string> learnt = {}) : learnt_(std::move(learnt)) {}

  /// Returns true for the states that are checked: their names begin with "model", "optimizer" or "ema".
  [[nodiscard]] static bool looks_at(std::string_view state);

  /// Records that a state has this floating-point tensor. An optimizer tensor marks its parameter as learnt.
  void add(std::string_view state, const std::string& entry);

  /// Returns true if the entry of a checked state has wrong values. Call it after all calls to add().
  [[nodiscard]] bool is_spoilt(std::string_view state, const std::string& entry, const NotFiniteCount& found) const;

 private:
  [[nodiscard]] bool may_be_infinite(const std::string& entry) const;

  std::set<std::string> learnt_;
  std::set<std::string> moments_;  ///< optimizer entries: "fc.weight.exp_avg"
};

/// Describes the entries with wrong values.
class NotFiniteWords {
 public:
  void add(std::string_view state, const std::string& entry, const NotFiniteCount& found, std::int64_t elements);

  /// Returns "model/fc.weight is not finite (3 of 64 elements), nor are 2 other tensors"; "" if all tensors are finite.
  [[nodiscard]] std::string text() const;

 private:
  std::string first_;
  std::int64_t others_ = -1;
};

}  // namespace lockstep::checkpoint
