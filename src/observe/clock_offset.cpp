// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/clock_offset.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/objects.h"

namespace lockstep::observe {
namespace {

constexpr int kRounds = 64;

/// Returns a name that is equal for two processes with the same clock: the same kernel and time namespace.
std::string clock_name() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code none;
  return boot + std::filesystem::read_symlink("/proc/self/ns/time", none).string();
}

std::vector<std::int64_t> flat(const std::vector<ClockRound>& rounds) {
  std::vector<std::int64_t> numbers;
  for (const ClockRound& round : rounds) numbers.insert(numbers.end(), {round.before_ns, round.after_ns});
  return numbers;
}

std::vector<ClockRound> rounds_of(const std::vector<std::int64_t>& numbers) {
  std::vector<ClockRound> rounds;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) rounds.push_back({numbers[i], numbers[i + 1]});
  return rounds;
}

}  // namespace

std::int64_t monotonic_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

ClockOffset clock_offset(const std::vector<ClockRound>& own, const std::vector<ClockRound>& main) {
  if (own.empty() || own.size() != main.size()) {
    throw UsageError(fmt::format("the offset of a clock needs equal rounds: {} of one rank and {} of the other",
                                 own.size(), main.size()));
  }
  std::int64_t least = own.front().before_ns - main.front().after_ns;
  std::int64_t most = own.front().after_ns - main.front().before_ns;
  for (std::size_t i = 1; i < own.size(); ++i) {
    least = std::max(least, own[i].before_ns - main[i].after_ns);
    most = std::min(most, own[i].after_ns - main[i].before_ns);
  }
  // If the clocks run at different speeds, the largest lower bound may exceed the smallest upper bound. In that case
  // their distance gives the error.
  return {.offset_ns = least + (most - least) / 2, .error_ns = std::abs(most - least) / 2};
}

ClockOffset measure_clock_offset(const Job& job) {
  const auto names = all_gather_object(job.group(), clock_name());
  const bool all_same = std::all_of(names.begin(), names.end(), [&](const auto& name) { return name == names[0]; });
  if (all_same) return {};
  job.barrier();
  std::vector<ClockRound> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const std::int64_t before = monotonic_ns();
    job.barrier();
    rounds.push_back({before, monotonic_ns()});
  }
  const std::vector<ClockRound> main = rounds_of(broadcast_object(job.group(), flat(rounds), 0));
  if (names[static_cast<std::size_t>(job.rank())] == names[0]) return {};
  return clock_offset(rounds, main);
}

}  // namespace lockstep::observe
