// SPDX-License-Identifier: Apache-2.0
#include "lockstep/doctor/all_reduce.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/printable.h"
#include "lockstep/launch/child.h"
#include "lockstep/launch/processes.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

constexpr auto kLimit = std::chrono::milliseconds(5000);
constexpr int kMostRanks = 8;
constexpr std::int64_t kSmall = 4096;
constexpr std::int64_t kLarge = 4 << 20;

fs::path own_folder() {
  std::error_code problem;
  return fs::read_symlink("/proc/self/exe", problem).parent_path();
}

void take_line(const std::string& text, view::AllReduceFacts& facts) {
  const auto json = json_or_null(text);
  if (!json.is_object() || !json.contains("median_us") || !json.contains("bytes")) return;
  if (!json["median_us"].is_number()) return;  // null
  const double micros = json.value("median_us", 0.0);
  const std::int64_t bytes = json.value("bytes", std::int64_t{0});
  facts.backend = text::printable_line(json.value("backend", std::string()));
  if (bytes == kSmall) facts.small_us = micros;
  if (bytes == kLarge && micros > 0) facts.large_bytes_per_s = static_cast<double>(bytes) / micros * 1e6;
}

void take_output(const std::string& out, view::AllReduceFacts& facts) {
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = std::min(out.find('\n', at), out.size());
    take_line(out.substr(at, end - at), facts);
    at = end + 1;
  }
}

/// The last non-empty line of a text.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text::printable_line(text.substr(text.rfind('\n') + 1));
}

}  // namespace

view::AllReduceFacts measure_all_reduce() {
  view::AllReduceFacts facts{.ranks = std::clamp(count_cpus(), 2, kMostRanks)};
  if (!fs::exists(own_folder() / "lockstep-worker")) {
    facts.skipped = fmt::format("there is no lockstep-worker in {}", own_folder().string());
    return facts;
  }
  const ChildResult result =
      run_child({"/proc/self/exe", "bench", "all-reduce", "--nproc-per-node", std::to_string(facts.ranks), "--bytes",
                 std::to_string(kSmall), std::to_string(kLarge), "--mode", "in_place", "--json", "--quiet"},
                kLimit);
  take_output(result.out, facts);
  if (result.code == -1) {
    facts.skipped =
        fmt::format("{} ranks did not finish within {} s; the machine may be busy", facts.ranks, kLimit.count() / 1000);
  } else if (result.code != 0) {
    facts.problem = fmt::format("failed with exit code {}: {}", result.code, last_line(result.err));
  } else if (facts.small_us < 0 || facts.large_bytes_per_s < 0) {
    facts.problem = "lockstep-worker printed no results: is it from another version?";
  }
  return facts;
}

}  // namespace lockstep::apps
