// SPDX-License-Identifier: Apache-2.0
// JSON of others. Its depth, values and bytes are counted before nlohmann's parser, which has no limits, sees it.
// scripts/check/bounds.py: nothing else calls that parser.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The most that is read as JSON. The defaults fit what Lockstep itself writes.
struct JsonLimits {
  std::uint64_t bytes = kMostReadBytes;  ///< of the text
  std::uint64_t values = 1'000'000;      ///< lists, objects, keys and plain values together
  int depth = 64;                        ///< of lists and objects in each other
  /// 0: `values` counts all of the text. N: each list or object that has N others around it is counted alone, for a
  /// callback that takes and drops them one by one.
  int part_depth = 0;
};

/// A text that is no JSON, or JSON beyond the limits.
class JsonError : public DataError {
 public:
  static constexpr const char* kNoJson = "no JSON";  ///< the why() of what is no JSON at all

  /// `why` says what is wrong at byte `byte` of `text`, counted from 1; 0: of no place.
  JsonError(const std::string& why, std::string_view text, std::size_t byte);

  /// Returns what is wrong, without its place.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }
  /// Returns the byte, counted from 1; 0 if the error has no place.
  [[nodiscard]] std::size_t byte() const noexcept { return byte_; }

 private:
  std::string why_;
  std::size_t byte_;
};

/// Throws where `text` is beyond the limits; it need not be JSON. Throws: JsonError.
void require_bounded_json(std::string_view text, const JsonLimits& limits = {});

/// Returns the value that `text` is. Of a key that comes twice, the last one counts. `each` is nlohmann's callback,
/// which may drop values. Throws: JsonError.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const JsonLimits& limits = {},
                                        const nlohmann::json::parser_callback_t& each = nullptr);

/// Does the same, and keeps the order of the keys. Throws: JsonError.
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonLimits& limits = {});

/// Returns the value that `text` is; null if it is no JSON or beyond the limits.
[[nodiscard]] nlohmann::json json_or_null(std::string_view text, const JsonLimits& limits = {});

/// Hands the events of `text` to `to`, and returns what its last call returned. Throws: JsonError beyond the limits.
bool read_json_events(std::string_view text, const JsonLimits& limits, nlohmann::json_sax<nlohmann::json>& to);

/// Returns the value that `bytes` are as CBOR. Throws: JsonError.
[[nodiscard]] nlohmann::json parse_cbor(std::string_view bytes, const JsonLimits& limits = {});

/// Returns the value that a file holds. Throws: as FileSystem::read(); DataError that names the file and the place.
[[nodiscard]] nlohmann::json read_json_file(FileSystem& files, const std::filesystem::path& file,
                                            const JsonLimits& limits = {});

}  // namespace lockstep

#pragma GCC visibility pop
