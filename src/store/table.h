// SPDX-License-Identifier: Apache-2.0
// Keys and values, and the effect of each verb on them, for the server and the store inside a process. Knows neither
// threads nor waits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::store {

/// The approximate memory of a key in addition to its bytes and those of its value.
inline constexpr std::size_t kKeyBytes = 128;

class Table {
 public:
  void set(const std::string& key, std::string value);
  [[nodiscard]] std::optional<std::string> find(const std::string& key) const;
  /// The sum; none if the value is no decimal integer or the sum overflows.
  std::optional<std::int64_t> add(const std::string& key, std::int64_t delta);
  /// Sets `queue` + N to the value, N from 1, and returns N.
  std::int64_t append(const std::string& queue, std::string value);
  /// Returns the value afterwards.
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);
  bool remove(const std::string& key);
  void remove_all(const std::string& prefix);
  /// Those of `keys` that are unset.
  [[nodiscard]] std::vector<std::string> missing(const std::vector<std::string>& keys) const;

  /// The approximate memory of its keys and values.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
};

/// The message of a TimeoutError for keys that never came.
[[nodiscard]] std::string timeout_message(const std::vector<std::string>& missing, double seconds);

/// The message if add() meets a value that is no counter.
[[nodiscard]] std::string not_a_counter_message(const std::string& key);

}  // namespace lockstep::store
