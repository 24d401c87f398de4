// SPDX-License-Identifier: Apache-2.0
// lockstep-sim-checkpoint: simulates ranks saving to a failing disk; each world is generated from a seed. Exit code 0:
// no world violated an invariant.
#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "sim/process.h"
#include "sim/saves/world.h"

namespace lockstep::sim::saves {
namespace {

constexpr const char* kUsage =
    "lockstep-sim-checkpoint [--seed N] [--worlds N] [--twice] [--shrink] [--full] [--table] [--first]\n"
    "                        [--without FAULT,...]\n"
    "  as lockstep-sim; --without leaves faults out, as --shrink says\n";

struct Options {
  std::uint64_t first = 1;
  std::uint64_t worlds = 1;
  bool is_twice = false;
  bool shrinks = false;
  bool is_full = false;
  bool has_table = false;
  bool is_until_first = false;
  std::vector<int> without = {};
};

bool read_flag(Options& options, const std::string& word) {
  if (word == "--twice") return options.is_twice = true;
  if (word == "--shrink") return options.shrinks = true;
  if (word == "--full") return options.is_full = true;
  if (word == "--first") return options.is_until_first = true;
  if (word == "--table") return options.has_table = true;
  return false;
}

bool read_value(Options& options, const std::string& word, const char* value) {
  if (word == "--seed") return options.first = std::strtoull(value, nullptr, 10), true;
  if (word == "--worlds") return options.worlds = std::strtoull(value, nullptr, 10), true;
  if (word != "--without") return false;
  std::istringstream list(value);
  for (std::string fault; std::getline(list, fault, ',');) options.without.push_back(std::atoi(fault.c_str()));
  return true;
}

bool read_options(Options& options, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (read_flag(options, argv[i])) continue;
    if (i + 1 == argc || !read_value(options, argv[i], argv[i + 1])) return false;
    ++i;
  }
  return true;
}

Plan plan_without(std::uint64_t seed, std::vector<int> faults) {
  Plan plan = draw_plan(seed);
  std::sort(faults.rbegin(), faults.rend());
  for (const int fault : faults) {
    if (fault < std::ssize(plan.faults)) plan.faults.erase(plan.faults.begin() + fault);
  }
  return plan;
}

const Result& run_world(const Plan& plan, bool is_full) {
  static auto* result =
      static_cast<Result*>(::mmap(nullptr, sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::memset(static_cast<void*>(result), 0, offsetof(Result, story) + 1);
  result->is_full = is_full;
  const int status = run_alone([&] { World(plan, *result).run(); });
  if (!result->is_done) {
    result->has_failed = true;
    std::snprintf(result->violation, sizeof result->violation, "the world's process ends with wait status %d", status);
  }
  return *result;
}

std::string without_numbers(std::string text) {
  std::erase_if(text, [](unsigned char letter) { return std::isdigit(letter) != 0; });
  return text;
}

/// Omits every fault that is not needed for the world to fail in the same way.
std::vector<int> shrink(std::uint64_t seed, const std::string& violation) {
  std::vector<int> without;
  for (int fault = 0; fault < std::ssize(draw_plan(seed).faults); ++fault) {
    without.push_back(fault);
    const Plan plan = plan_without(seed, without);
    if (without_numbers(run_world(plan, false).violation) != without_numbers(violation)) without.pop_back();
  }
  return without;
}

void tell(std::uint64_t seed, const std::vector<int>& without, bool is_full) {
  const Plan plan = plan_without(seed, without);
  const Result& result = run_world(plan, is_full);
  const std::string cut = without.empty() ? "" : fmt::format(" --without {}", fmt::join(without, ","));
  fmt::print("seed {}: {}\n{}\n{}replay: lockstep-sim-checkpoint --seed {}{} --full\n\n", seed,
             result.has_failed ? result.violation : "holds", to_text(plan), result.story, seed, cut);
}

/// Results totalled over many worlds.
struct Totals {
  std::uint64_t worlds = 0;
  std::uint64_t failed = 0;
  std::uint64_t contested = 0;
  std::uint64_t rounds = 0;
  std::uint64_t saves = 0;
  std::uint64_t images = 0;
  std::uint64_t calls_failed = 0;
  std::uint64_t turns = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Fault::Kind::kCount)> faults{};

  void add(const Result& result) {
    ++worlds;
    failed += result.has_failed ? 1 : 0;
    contested += result.is_contested ? 1 : 0;
    rounds += static_cast<std::uint64_t>(result.rounds);
    saves += result.saves;
    images += result.images;
    calls_failed += result.calls_failed;
    turns += result.steps;
    for (std::size_t i = 0; i < faults.size(); ++i) faults[i] += result.faults[i];
  }
};

void print(const Totals& totals, double seconds, bool has_table) {
  for (std::size_t i = 0; has_table && i < totals.faults.size(); ++i) {
    fmt::print("{:<18} {:>10}\n", name_of(static_cast<Fault::Kind>(i)), totals.faults[i]);
  }
  fmt::print(
      "{} worlds in {:.1f} s ({:.0f} a second), {} failed; {} saves in {} rounds, {} disks after a power cut, {} calls "
      "that failed, {} worlds of two rounds without a lock, {} turns of threads\n",
      totals.worlds, seconds, static_cast<double>(totals.worlds) / seconds, totals.failed, totals.saves, totals.rounds,
      totals.images, totals.calls_failed, totals.contested, totals.turns);
}

int run(const Options& options) {
  (void)at::full({1}, 1, at::kLong);  // libtorch fills its tables once rather than in each world
  const auto begin = std::chrono::steady_clock::now();
  Totals totals;
  std::uint64_t differ = 0;
  for (std::uint64_t seed = options.first; seed < options.first + options.worlds; ++seed) {
    if (options.is_until_first && totals.failed > 0) break;
    const Plan plan = plan_without(seed, options.without);
    const Result& result = run_world(plan, false);
    totals.add(result);
    const bool has_failed = result.has_failed;
    const std::string violation = result.violation;
    const std::uint64_t digest = result.digest;
    if (options.is_twice && run_world(plan, false).digest != digest) {
      ++differ;
      fmt::print("seed {} runs in another way the second time\n", seed);
    }
    if (has_failed || options.is_full) tell(seed, options.without, options.is_full);
    if (has_failed && options.shrinks) tell(seed, shrink(seed, violation), options.is_full);
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  print(totals, passed.count(), options.has_table);
  return totals.failed + differ == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::sim::saves

int main(int argc, char** argv) {
  ::setenv("OMP_NUM_THREADS", "1", 1);  // so that no system threads exist when a world is forked
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  lockstep::sim::fix_addresses(argv);
  lockstep::sim::saves::Options options;
  if (!lockstep::sim::saves::read_options(options, argc, argv)) {
    std::fputs(lockstep::sim::saves::kUsage, stderr);
    return 64;
  }
  return lockstep::sim::saves::run(options);
}
