// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/finite_rule.h"

#include <fmt/format.h>

#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kOptimizer = "optimizer";

/// Returns true for the names of learnt entries in libtorch's layers. The names matter only if the optimizer keeps no
/// state, such as SGD without momentum.
bool has_name_of_weights(std::string_view entry) { return entry.ends_with("weight") || entry.ends_with("bias"); }

bool is_running_statistic(std::string_view entry) {
  return entry.ends_with("running_mean") || entry.ends_with("running_var");
}

}  // namespace

bool FiniteRule::looks_at(std::string_view state) {
  return state.starts_with("model") || state.starts_with(kOptimizer) || state.starts_with("ema");
}

void FiniteRule::add(std::string_view state, const std::string& entry) {
  if (state.starts_with(kOptimizer)) moments_.insert(entry);
}

bool FiniteRule::may_be_infinite(const std::string& entry) const {
  if (learnt_.count(entry) != 0 || is_running_statistic(entry)) return false;
  if (moments_.empty()) return !has_name_of_weights(entry);
  const auto moment = moments_.lower_bound(entry + ".");
  return moment == moments_.end() || !moment->starts_with(entry + ".");
}

bool FiniteRule::is_spoilt(std::string_view state, const std::string& entry, const NotFiniteCount& found) const {
  if (found.nan > 0) return true;
  if (found.infinite == 0) return false;
  return state.starts_with(kOptimizer) || !may_be_infinite(entry);
}

void NotFiniteWords::add(std::string_view state, const std::string& entry, const NotFiniteCount& found,
                         std::int64_t elements) {
  if (++others_ > 0) return;
  first_ = fmt::format("{}/{} is not finite ({} of {} elements)", state, entry,
                       text::thousands(found.nan + found.infinite), text::thousands(elements));
}

std::string NotFiniteWords::text() const {
  if (others_ <= 0) return first_;
  return fmt::format("{}, nor {} {}", first_, others_ == 1 ? "is" : "are", text::counted(others_, "other tensor"));
}

}  // namespace lockstep::checkpoint
