// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/restart.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace lockstep {
namespace {

// Words of the Trainer's errors (RunFolder::require_there(), rescue_run()). A restart would make a new run folder and
// train from the beginning.
constexpr const char* kLostFolder = " while the run was training in it";
constexpr const char* kRescued = "\n  saved  ";

/// Returns why an IoError with `text` is not followed by a restart; "" if it may be.
std::string lasting_fault(const std::string& text) {
  const auto has = [&text](const std::string& words) { return text.find(words) != std::string::npos; };
  if (has(kRescued)) return "the run is saved in the rescue folder, from which a new run can continue";
  if (has(kLostFolder)) return "the run folder is lost";
  for (const int code : {ENOSPC, EDQUOT, EROFS, EACCES, EFBIG}) {
    const std::string words = std::generic_category().message(code);
    if (has(words)) return fmt::format("it would end with '{}' again", words);
  }
  return "";
}

}  // namespace

RestartDecision decide_restart(const RestartFacts& facts) {
  if (facts.was_interrupted) return {false, "it was asked to stop"};
  if (facts.max_restarts <= 0) return {false, "--max-restarts is 0"};
  for (const char* type : {"UsageError", "DataError", "InternalError"}) {
    if (facts.error_type == type) return {false, fmt::format("a {} would occur again", type)};
  }
  if (const std::string fault = lasting_fault(facts.error_text); facts.error_type == "IoError" && !fault.empty()) {
    return {false, fault};
  }
  if (facts.restarts_done >= facts.max_restarts) {
    return {false, fmt::format("all {} restarts are used up", facts.max_restarts)};
  }
  return {true, fmt::format("restart {} of {}", facts.restarts_done + 1, facts.max_restarts)};
}

}  // namespace lockstep
