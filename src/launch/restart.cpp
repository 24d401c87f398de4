// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/restart.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace lockstep {
namespace {

/// Returns the system's message for a persistent disk fault in `text`; "" if there is none.
std::string lasting_fault(const std::string& text) {
  for (const int code : {ENOSPC, EDQUOT, EROFS, EACCES, EFBIG}) {
    const std::string words = std::generic_category().message(code);
    if (text.find(words) != std::string::npos) return words;
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
    return {false, fmt::format("it would end with '{}' again", fault)};
  }
  if (facts.restarts_done >= facts.max_restarts) {
    return {false, fmt::format("all {} restarts are used up", facts.max_restarts)};
  }
  return {true, fmt::format("restart {} of {}", facts.restarts_done + 1, facts.max_restarts)};
}

}  // namespace lockstep
