// SPDX-License-Identifier: Apache-2.0
// Keys and values, and the effect of each verb on them, for the server and the local store, without threads or waits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::store {

/// The approximate memory of a key in addition to the bytes of the key and its value.
inline constexpr std::size_t kKeyBytes = 128;

class Table {
 public:
  void set(const std::string& key, std::string value);
  [[nodiscard]] std::optional<std::string> find(const std::string& key) const;
  /// Returns the sum; none if the value is not a decimal integer or the sum overflows.
  std::optional<std::int64_t> add(const std::string& key, std::int64_t delta);
  /// Stores the value under the key `queue` + N and returns N, which counts from 1.
  std::int64_t append(const std::string& queue, std::string value);
  /// Returns the value afterwards.
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);
  bool remove(const std::string& key);
  void remove_all(const std::string& prefix);
  /// Returns the `keys` that are unset.
  [[nodiscard]] std::vector<std::string> missing(const std::vector<std::string>& keys) const;

  /// Returns the approximate memory use of the keys and values.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
};

/// Returns the message of a TimeoutError for keys that were not set in time.
[[nodiscard]] std::string timeout_message(const std::vector<std::string>& missing, double seconds);

/// Returns the message of add() for a value that is not a counter.
[[nodiscard]] std::string not_a_counter_message(const std::string& key);

}  // namespace lockstep::store
