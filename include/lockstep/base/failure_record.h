// SPDX-License-Identifier: Apache-2.0
// How a rank failed, as one value: what ranks, agents and savers tell each other and the launcher prints. Like the
// collective errors of XGBoost it says what failed, where, and because of what.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "lockstep/base/error.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// kDied: its process ended without a word. kFailed: an error of its own. kTimeout: it was late. kMismatch: the ranks
/// called different collectives. kPeer: it only repeats what another rank has to say.
enum class FailureKind : std::uint8_t { kNone, kDied, kFailed, kTimeout, kMismatch, kPeer };

/// Thrown on every rank where the ranks called different collectives.
class MismatchError : public UsageError {
 public:
  using UsageError::UsageError;
};

struct FailureRecord {
  FailureKind kind = FailureKind::kFailed;
  std::string type = {};  ///< the error's type, "DataError"; empty: it is no error of ours
  std::string message = {};
  std::string hint = {};
  int rank = -1;  ///< the rank in the job; -1: not known
  std::string host = {};
  std::int64_t time_ns = 0;  ///< since 1970, when the record was made
};

/// The store's key of the first failure: a record as JSON, written once by compare_set. Whoever fails first writes it:
/// a rank for itself, or the agent for a rank that cannot any more.
inline constexpr const char* kFirstFailureKey = "lockstep/failure/first";

/// `error` as this process would tell others of it. An exception that is none of ours has fault::type_of_unknown().
[[nodiscard]] FailureRecord record_of(const std::exception& error);

/// "DataError: broken image", or the message alone where there is no type.
[[nodiscard]] std::string words_of(const FailureRecord& record);

/// One line of JSON: {"kind", "type", "message", "hint", "rank", "host", "what", "time_ns"}; "what" is words_of().
[[nodiscard]] std::string to_json(const FailureRecord& record);

/// Reads what to_json() has written, or {"rank", "host", "what"} alone. The words may come from a stranger: they are
/// cleaned for a terminal, and secrets are left out. Empty where it is no such JSON.
[[nodiscard]] std::optional<FailureRecord> parse_failure(const std::string& json);

/// Throws: the error that the record tells of, always; InternalError where its type is not known.
[[noreturn]] void rethrow(const FailureRecord& record);

}  // namespace lockstep

#pragma GCC visibility pop
