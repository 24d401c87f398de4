// SPDX-License-Identifier: Apache-2.0
// Reads JSON that may come from an untrusted source. It checks depth, values and bytes before nlohmann's parser, which
// has no limits, sees the text. scripts/check/bounds.py checks that no other code calls that parser.
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

/// Limits for JSON. The defaults fit Lockstep's own files.
struct JsonLimits {
  std::uint64_t bytes = kMostReadBytes;  ///< size of the text
  std::uint64_t values = 1'000'000;      ///< total of lists, objects, keys and plain values
  int depth = 64;                        ///< nesting of lists and objects
  /// 0: `values` limits the whole text. N: it limits each list or object that is nested in N others, so that a callback
  /// can process and drop these parts one by one.
  int part_depth = 0;
};

/// Thrown for text that is not JSON or exceeds the limits.
class JsonError : public DataError {
 public:
  static constexpr const char* kNoJson = "not JSON";  ///< result of why() if the text is not JSON

  /// `why` is the problem at byte `byte` of `text`, counted from 1; 0 if the problem has no position.
  JsonError(const std::string& why, std::string_view text, std::size_t byte);

  /// Returns the problem, without its position.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }
  /// Returns the byte, counted from 1; 0 if the error has no position.
  [[nodiscard]] std::size_t byte() const noexcept { return byte_; }

 private:
  std::string why_;
  std::size_t byte_;
};

/// Throws: JsonError if `text` exceeds the limits; it need not be JSON.
void require_bounded_json(std::string_view text, const JsonLimits& limits = {});

/// Returns the value of `text`. If a key occurs twice, the last value wins. `each` is nlohmann's callback, which may
/// drop values. Throws: JsonError.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const JsonLimits& limits = {},
                                        const nlohmann::json::parser_callback_t& each = nullptr);

/// Like parse_json(), but keeps the order of the keys. Throws: JsonError.
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonLimits& limits = {});

/// Returns the value of `text`; null if it is not JSON or exceeds the limits.
[[nodiscard]] nlohmann::json json_or_null(std::string_view text, const JsonLimits& limits = {});

/// Passes the parse events of `text` to `to`, and returns what the last one returned. Throws: JsonError if it exceeds
/// the limits.
bool read_json_events(std::string_view text, const JsonLimits& limits, nlohmann::json_sax<nlohmann::json>& to);

/// Returns the value of the CBOR data `bytes`. Throws: JsonError.
[[nodiscard]] nlohmann::json parse_cbor(std::string_view bytes, const JsonLimits& limits = {});

/// Returns the value in a file. Throws: anything FileSystem::read() throws; DataError naming the file and the position.
[[nodiscard]] nlohmann::json read_json_file(FileSystem& files, const std::filesystem::path& file,
                                            const JsonLimits& limits = {});

}  // namespace lockstep

#pragma GCC visibility pop
