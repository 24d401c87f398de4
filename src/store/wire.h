// SPDX-License-Identifier: Apache-2.0
// Writes and reads the bytes that store clients and the server exchange; docs/formats/store.md has the grammar. Parsing
// does not throw: ok() is false for invalid bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::store {

inline constexpr std::string_view kMagic = "lockstep-store/3";
inline constexpr std::size_t kHeaderBytes = 4;
inline constexpr std::uint32_t kMaxFrameBytes = 64U << 20U;
// Limits on the keys and values that clients of other processes may store in a server, and on the requests, replies and
// waits that it holds for all of these clients.
inline constexpr std::size_t kMaxTableBytes = 512U << 20U;
inline constexpr std::size_t kMaxInFlightBytes = 1024U << 20U;
// The size limit for a frame from a stranger.
inline constexpr std::uint32_t kMaxHelloBytes = 256;
// The limit on the number of strings in one request: a list of empty strings needs eight times as much memory as it has
// bytes.
inline constexpr std::uint32_t kMaxStrings = 65'536;

enum class Verb : std::uint8_t {
  kHello = 1,
  kSet,
  kTryGet,
  kGet,
  kAdd,
  kCompareSet,
  kWait,
  kRemove,
  kProve,
  kAttend,
  kLeave,
  kAppend,
  kKnock
};
// kOtherVersion: the hello has a different version. kOtherMode: one side encrypts and the other does not. kFull: the
// server has reached its connection or memory limit.
enum class Status : std::uint8_t {
  kOk = 0,
  kAbsent,
  kTimeout,
  kRefused,
  kBadRequest,
  kOtherVersion,
  kOtherMode,
  kFull
};

/// Builds a frame: the length comes first; everything is little-endian.
class FrameWriter {
 public:
  explicit FrameWriter(Verb verb) : FrameWriter(static_cast<std::uint8_t>(verb)) {}
  explicit FrameWriter(Status status) : FrameWriter(static_cast<std::uint8_t>(status)) {}

  FrameWriter& string(std::string_view value);
  FrameWriter& number(std::int64_t value);
  FrameWriter& strings(const std::vector<std::string>& values);

  /// Returns the whole frame. The writer must not be used again.
  [[nodiscard]] std::string take();

 private:
  explicit FrameWriter(std::uint8_t first) : bytes_(kHeaderBytes, '\0') { bytes_.push_back(static_cast<char>(first)); }

  std::string bytes_;
};

/// Reads a frame's body. After the first invalid field, ok() is false and every field is empty.
class FrameReader {
 public:
  explicit FrameReader(std::string_view body) : rest_(body) {}

  std::uint8_t byte();
  std::string string();
  std::int64_t number();
  /// Reads a list of at most kMaxStrings strings.
  std::vector<std::string> strings();

  /// Returns true if every field was valid and no byte is left over.
  [[nodiscard]] bool complete() const { return ok_ && rest_.empty(); }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string_view take(std::size_t count);
  std::uint32_t length();

  std::string_view rest_;
  bool ok_ = true;
};

inline constexpr auto kLongestWait = std::chrono::hours(24 * 365);

/// Returns the approximate memory of a list of strings.
[[nodiscard]] std::size_t bytes_of(const std::vector<std::string>& strings);

/// Returns the body's length from a frame's header.
[[nodiscard]] std::uint32_t read_length(const char* header);

}  // namespace lockstep::store
