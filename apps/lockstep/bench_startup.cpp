// SPDX-License-Identifier: Apache-2.0
#include "worker_verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/launch/child.h"
#include "worker_verbs.h"

namespace lockstep::apps {
namespace {

// Rank 0 prints this, followed by the time of the host's monotonic clock, when all ranks have finished the step.
constexpr std::string_view kStepWord = "first step at ";
constexpr auto kTimeToStart = std::chrono::minutes(30);

std::int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Runs a command to completion and returns its output.
std::string output_of(const std::vector<std::string>& command) {
  const ChildResult result = run_child(command, kTimeToStart);
  if (result.code == 0) return result.out;
  throw PeerError(fmt::format("the ranks failed with exit code {}\n{}", result.code, result.err),
                  fmt::format("to reproduce this, run: {}", text::join(command, " ")));
}

double milliseconds_of_one(const std::vector<std::string>& command) {
  const std::int64_t begin = now_ns();
  const std::string text = output_of(command);
  const auto at = text.find(kStepWord);
  std::int64_t end = 0;
  if (at != std::string::npos) {
    const char* first = text.data() + at + kStepWord.size();
    (void)std::from_chars(first, text.data() + text.size(), end);
  }
  if (end <= begin) throw InternalError("rank 0 did not report when the first step ended");
  return static_cast<double>(end - begin) / 1e6;
}

}  // namespace

int bench_startup(const std::string& worker, int processes, std::vector<std::string> arguments) {
  const bool json = std::erase(arguments, "--json") > 0;
  const auto repeats = whole_number("--repeats", take_option(arguments, "repeats").value_or("10"), {1, 10'000});
  if (!arguments.empty()) {
    throw UsageError(fmt::format("unknown option '{}'", arguments[0]),
                     "lockstep bench startup --help lists the options");
  }
  const std::vector<std::string> command = {
      "/proc/self/exe", "run",   "--quiet", "--nproc-per-node", std::to_string(processes), "--",
      worker,           "bench", "startup"};
  std::vector<double> times;
  for (std::int64_t i = 0; i <= repeats; ++i) {
    const double time = milliseconds_of_one(command);
    if (i > 0) times.push_back(time);  // not counted: the first run reads the programs from disk
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  if (json) {
    print_to(stdout,
             R"({{"bench": "startup", "ranks": {}, "median_ms": {}, "min_ms": {}, "max_ms": {}}})"
             "\n",
             processes, text::json_number(median, 1), text::json_number(times.front(), 1),
             text::json_number(times.back(), 1));
  } else {
    print_to(stdout, "{} {}: {:.0f} ms from the command to the end of the first step ({:.0f} to {:.0f}, {} starts)\n",
             processes, processes == 1 ? "rank" : "ranks", median, times.front(), times.back(), times.size());
  }
  return 0;
}

}  // namespace lockstep::apps
