// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/env.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"

namespace lockstep::env {
namespace {

constexpr double kMostSeconds = 1e9;  // 31 years, which every clock can represent

std::optional<double> positive_seconds(const char* name) {
  const auto text = get(name);
  if (!text) return std::nullopt;
  const auto seconds = text::parse_number(*text);
  if (!seconds || !(*seconds > 0 && *seconds <= kMostSeconds)) {
    throw UsageError(fmt::format("{} is '{}', not a positive number of seconds up to 1,000,000,000", name, *text));
  }
  return seconds;
}

}  // namespace

std::optional<std::string> get(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here calls setenv
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::vector<std::string> all() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

std::optional<std::int64_t> get_int(const char* name) {
  const auto text = get(name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end) {
    throw UsageError(fmt::format("the environment variable {} is '{}', not an integer", name, *text));
  }
  return value;
}

std::chrono::milliseconds collective_timeout() {
  constexpr double kDefaultSeconds = 300.0;
  auto seconds = positive_seconds("LOCKSTEP_TIMEOUT");
  if (!seconds) seconds = positive_seconds("NCCL_TIMEOUT");
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds.value_or(kDefaultSeconds) * 1000.0));
}

const char* timeout_variable() {
  return !get("LOCKSTEP_TIMEOUT") && get("NCCL_TIMEOUT") ? "NCCL_TIMEOUT" : "LOCKSTEP_TIMEOUT";
}

}  // namespace lockstep::env
