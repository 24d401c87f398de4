// SPDX-License-Identifier: Apache-2.0
#include "console_options.h"

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/split.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::apps {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

std::string name_of(int number) { return fmt::format("SIG{}", ::sigabbrev_np(number)); }

}  // namespace

StreamsByRank streams_of(const std::string& option, const std::string& text) {
  const auto fail = [&]() -> std::int64_t {
    throw UsageError(fmt::format("{} is '{}'", option, text),
                     "use 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or one value per local rank: 0:1,1:3");
  };
  StreamsByRank streams;
  if (text.find(':') == std::string::npos) {
    const auto bits = parse_whole(text, {.most = 3});
    streams.others = static_cast<int>(bits ? *bits : fail());
    return streams;
  }
  for (const std::string& part : text::split(text, ',')) {
    const auto colon = part.find(':');
    const auto rank = parse_whole(part.substr(0, colon), {});
    const auto bits = colon == std::string::npos ? std::nullopt : parse_whole(part.substr(colon + 1), {.most = 3});
    if (!rank || !bits) fail();
    streams.by_rank[static_cast<int>(*rank)] = static_cast<int>(*bits);
  }
  return streams;
}

std::vector<int> local_ranks_of(const std::string& text) {
  std::vector<int> ranks;
  for (const std::string& part : text.empty() ? std::vector<std::string>() : text::split(text, ',')) {
    const auto rank = parse_whole(part, {});
    if (!rank) {
      throw UsageError(fmt::format("--local-ranks-filter is '{}'", text), "list local ranks, counted from 0: 0,2");
    }
    ranks.push_back(static_cast<int>(*rank));
  }
  return ranks;
}

std::vector<int> signals_of(const std::string& text) {
  std::vector<std::string> known;
  for (const int number : kSignals) known.push_back(name_of(number));
  std::vector<int> numbers;
  for (const std::string& part : text::split(text, ',')) {
    const auto found = std::find(known.begin(), known.end(), part);
    if (found == known.end()) {
      throw UsageError(fmt::format("--signals-to-handle contains '{}'", part),
                       fmt::format("use one or more of {}", text::join(known)));
    }
    numbers.push_back(kSignals[static_cast<std::size_t>(found - known.begin())]);
  }
  return numbers;
}

std::string prefix_of(const std::string& text) {
  for (std::size_t at = 0; (at = text.find("${", at)) != std::string::npos;) {
    const std::size_t end = text.find('}', at);
    const std::string field = text.substr(at, end == std::string::npos ? end : end + 1 - at);
    if (field != "${role_name}" && field != "${local_rank}" && field != "${rank}") {
      throw UsageError(fmt::format("--log-line-prefix-template contains '{}'", field),
                       "available fields: ${role_name}, ${local_rank} and ${rank}");
    }
    at = end;
  }
  return text;
}

}  // namespace lockstep::apps
