// SPDX-License-Identifier: Apache-2.0
// The class names of several shards. All shards that have class names must have the same ones. No torch header.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::data {

class ShardClasses {
 public:
  /// Throws: DataError naming both shards if `classes` differ from those of an earlier shard.
  void add(std::vector<std::string> classes, const std::string& shard) {
    if (classes.empty() || classes == classes_) return;
    if (!classes_.empty()) {
      throw DataError(
          fmt::format("the shards {} and {} have different classes: {}", shard_, shard, difference(classes)),
          "a label would have two meanings: read the shards as two sets, or pack both again with the same classes in "
          "the same order");
    }
    classes_ = std::move(classes);
    shard_ = shard;
  }

  [[nodiscard]] const std::vector<std::string>& classes() const noexcept { return classes_; }

 private:
  /// Returns both lists, or, if they are long, the first class that differs.
  [[nodiscard]] std::string difference(const std::vector<std::string>& classes) const {
    constexpr std::size_t kFew = 10;
    if (classes_.size() <= kFew && classes.size() <= kFew) {
      return fmt::format("{} | {}", text::join(classes_), text::join(classes));
    }
    std::size_t at = 0;
    while (at < std::min(classes_.size(), classes.size()) && classes_[at] == classes[at]) ++at;
    const auto name = [at](const std::vector<std::string>& names) { return at < names.size() ? names[at] : "none"; };
    return fmt::format("{} | {} classes, and the first that differs is class {}: {} | {}", classes_.size(),
                       classes.size(), at, name(classes_), name(classes));
  }

  std::vector<std::string> classes_;
  std::string shard_;
};

}  // namespace lockstep::data
