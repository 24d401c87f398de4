// SPDX-License-Identifier: Apache-2.0
// A rank's failure as one value that ranks, agents and savers exchange and the launcher prints. Like XGBoost's
// collective errors, it holds the failure, its place and its cause.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "lockstep/base/error.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// kNone: no failure. kDied: the rank's process ended without a message. kFailed: the rank had its own error. kTimeout:
/// the rank was late. kMismatch: the ranks called different collectives. kPeer: the rank only repeats another rank's
/// failure. kLost: the rank's whole node was lost, and `rank` is the node's first rank. kHang: the launcher found that
/// the other ranks waited for `rank`, or that the calls of `rank` differed from theirs; `message` says which.
enum class FailureKind : std::uint8_t { kNone, kDied, kFailed, kTimeout, kMismatch, kPeer, kLost, kHang };

/// Returns "died", "failed" and so on.
[[nodiscard]] const char* name_of(FailureKind kind);

/// Thrown on every rank if the ranks called different collectives.
class MismatchError : public UsageError {
 public:
  using UsageError::UsageError;
};

/// A failure of one rank, as the ranks send it to each other and to the launcher through the store.
struct FailureRecord {
  FailureKind kind = FailureKind::kFailed;  ///< the kind of failure
  std::string type = {};                    ///< the error's type, "DataError"; empty: not a Lockstep error
  std::string message = {};                 ///< description of the failure
  std::string hint = {};                    ///< the next step; may be empty
  int rank = -1;                            ///< the rank in the job; -1: unknown
  std::string host = {};                    ///< name of the rank's host
  int erred = -1;            ///< the rank that computed wrong numbers, if the error is a CorruptionError; -1: unknown
  std::int64_t time_ns = 0;  ///< when the record was created, in nanoseconds since 1970
};

/// The store's key of the first failure. Its value is a record as JSON, written once with compare_set(). The rank that
/// fails first writes it, or its agent if the rank no longer can.
inline constexpr const char* kFirstFailureKey = "lockstep/failure/first";

/// Returns the wall-clock time in nanoseconds since 1970.
[[nodiscard]] std::int64_t wall_time_ns();

/// Returns the error of a path that the system refuses, such as one below a folder that this user may not enter, or a
/// working folder that another process removed.
/// Returns nothing for another exception, for a shortage, and in a user's program, where the place of the exception
/// matters more.
[[nodiscard]] std::optional<IoError> path_error(const std::exception& error);

/// Returns the record of this rank's `error`. If `error` is not a Lockstep error, its type is fault::type_of_unknown().
[[nodiscard]] FailureRecord record_of(const std::exception& error, int rank = -1, const std::string& host = {});

/// Returns "DataError: broken image", or only the message if the type is empty or the message begins with it.
[[nodiscard]] std::string words_of(const FailureRecord& record);

/// Returns one line of JSON: {"kind", "type", "message", "hint", "rank", "erred", "host", "what", "time_ns"}; "what"
/// is words_of().
[[nodiscard]] std::string to_json(const FailureRecord& record);

/// Reads the text of to_json(), or JSON with only "rank", "host" and "what". The text may come from an untrusted
/// source, so the function cleans it for a terminal and removes secrets. Returns none if the text is not such JSON.
[[nodiscard]] std::optional<FailureRecord> parse_failure(const std::string& json);

/// Always throws: the error that the record describes; InternalError if its type is unknown.
[[noreturn]] void rethrow(const FailureRecord& record);

/// Returns the exit code of a program that ends with the record's error.
[[nodiscard]] int exit_code_of(const FailureRecord& record);

}  // namespace lockstep

#pragma GCC visibility pop
