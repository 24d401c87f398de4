// SPDX-License-Identifier: Apache-2.0
#include "store/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lockstep/base/text.h"

namespace lockstep::store {

void Table::set(const std::string& key, std::string value) {
  const auto [found, is_new] = values_.try_emplace(key);
  bytes_ += value.size() + (is_new ? key.size() + kKeyBytes : 0) - found->second.size();
  found->second = std::move(value);
}

bool Table::remove(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= key.size() + kKeyBytes + found->second.size();
  values_.erase(found);
  return true;
}

std::optional<std::string> Table::find(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

void Table::remove_all(const std::string& prefix) {
  std::erase_if(values_, [&](const auto& entry) {
    const auto& [key, value] = entry;
    if (!key.starts_with(prefix)) return false;
    bytes_ -= key.size() + kKeyBytes + value.size();
    return true;
  });
}

std::optional<std::int64_t> Table::add(const std::string& key, std::int64_t delta) {
  const std::string before = find(key).value_or("");
  std::int64_t sum = 0;
  if (!before.empty()) {
    const char* end = before.data() + before.size();
    const auto [at, problem] = std::from_chars(before.data(), end, sum);
    if (problem != std::errc{} || at != end) return std::nullopt;
  }
  if (__builtin_add_overflow(sum, delta, &sum)) return std::nullopt;
  set(key, std::to_string(sum));
  return sum;
}

std::int64_t Table::append(const std::string& queue, std::string value) {
  const std::string counter = queue + "count";
  const std::int64_t last = add(counter, 1).value_or(0);
  set(queue + std::to_string(last), std::move(value));
  return last;
}

std::string Table::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  const auto found = values_.find(key);
  const std::string& before = found == values_.end() ? std::string() : found->second;
  if (before != expected) return before;
  set(key, desired);
  return desired;
}

std::vector<std::string> Table::missing(const std::vector<std::string>& keys) const {
  std::vector<std::string> unset;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(unset),
               [&](const auto& key) { return !values_.count(key); });
  return unset;
}

std::string timeout_message(const std::vector<std::string>& missing, double seconds) {
  // A job of thousands of ranks must not print thousands of keys.
  constexpr std::size_t kShown = 8;
  std::vector<std::string> shown(missing.begin(),
                                 missing.begin() + static_cast<std::ptrdiff_t>(std::min(missing.size(), kShown)));
  for (auto& key : shown) key = fmt::format("'{}'", key);
  if (missing.size() > kShown) shown.push_back(fmt::format("and {} more", missing.size() - kShown));
  return fmt::format("the store did not get {} {} within {}", missing.size() == 1 ? "key" : "keys", text::join(shown),
                     text::duration(seconds));
}

std::string not_a_counter_message(const std::string& key) {
  return fmt::format("store key '{}' does not hold a decimal counter, or the sum does not fit into 64 bits", key);
}

}  // namespace lockstep::store
