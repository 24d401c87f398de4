// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/silence.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::launch {
namespace {

// Reading /proc takes a few milliseconds on a large machine, so short silences are not checked.
constexpr auto kFirstLook = std::chrono::seconds(2);
constexpr auto kNextLook = std::chrono::seconds(5);
// CPU seconds per minute that count as idle: a hanging program still has threads that read a clock.
constexpr double kIdleSeconds = 0.3;
constexpr double kIdleSecondsOfARank = 0.03;

double idle_seconds(std::size_t ranks, std::chrono::nanoseconds silence) {
  const double seconds_a_minute = kIdleSeconds + kIdleSecondsOfARank * static_cast<double>(ranks);
  return seconds_a_minute * std::max(1.0, Seconds(silence).count() / 60);
}

}  // namespace

void SilenceWatch::begin(TimePoint now) {
  since_ = now;
  has_said_ = false;
}

std::optional<std::chrono::nanoseconds> SilenceWatch::look(TimePoint now, const NodeActivity& activity) {
  if (output_ != activity.output) {
    output_ = activity.output;
    cpu_s_.reset();
    begin(now);
    next_look_ = now + kFirstLook;
    return std::nullopt;
  }
  if (now < next_look_) return cpu_s_ ? std::optional(now - since_) : std::nullopt;
  next_look_ = now + kNextLook;
  const double used = activity.cpu_s();
  // A smaller value than last time means that a process has ended.
  if (!cpu_s_ || used < *cpu_s_ || used - *cpu_s_ > idle_seconds(activity.ranks, now - since_)) {
    cpu_s_ = used;
    begin(now);
    return std::nullopt;
  }
  return now - since_;
}

bool SilenceWatch::is_news(std::chrono::nanoseconds silence) {
  if (silence < kSaidAfter || has_said_) return false;
  has_said_ = true;
  return true;
}

std::string silence_text(const std::vector<SilentRank>& ranks, const std::string& host,
                         std::chrono::nanoseconds silence) {
  std::vector<std::string> numbers;
  for (const SilentRank& rank : ranks) numbers.push_back(std::to_string(rank.rank));
  const bool one = ranks.size() == 1;
  return fmt::format(
      "{} {} on {} {} written nothing and used no processor time for {:.0f} s: {} may be hanging; lockstep doctor {} "
      "shows where {}is",
      one ? "rank" : "ranks", text::join(numbers), host, one ? "has" : "have", Seconds(silence).count(),
      one ? "it" : "they", ranks.front().pid, one ? "it " : fmt::format("rank {} ", ranks.front().rank));
}

}  // namespace lockstep::launch
