// SPDX-License-Identifier: Apache-2.0
// lockstep-sim: simulates clusters in one process, each generated from a seed. Exit code 0: no world violated an
// invariant.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "sim/process.h"
#include "sim/runner.h"
#include "sim/shrink.h"

namespace lockstep::sim {
namespace {

constexpr const char* kUsage =
    "lockstep-sim [--seed N] [--worlds N] [--twice] [--shrink] [--full] [--table] [--first]\n"
    "             [--large] [--without FAULT,...] [--nodes N] [--ranks N] [--steps N]\n"
    "  --seed     the first seed (1)                 --worlds  how many seeds from there on (1)\n"
    "  --twice    each world runs twice, and has to be the same one\n"
    "  --shrink   of a world that fails, finds a smaller one with the same failure\n"
    "  --full     tells every world's whole story    --table   how often each fault occurred\n"
    "  --first    ends after the first world that fails\n"
    "  --large    every world has 9 to 64 nodes with 1 to 8 ranks, and not one in 200\n"
    "  the others leave something out of the seed's world, as --shrink says\n";

struct Options {
  std::uint64_t first = 1;
  std::uint64_t worlds = 1;
  bool is_twice = false;
  bool shrinks = false;
  bool is_full = false;
  bool has_table = false;
  bool is_until_first = false;
  Size size = Size::kAsDrawn;
  Cut cut = {};
};

bool read_flag(Options& options, const std::string& word) {
  if (word == "--twice") return options.is_twice = true;
  if (word == "--shrink") return options.shrinks = true;
  if (word == "--full") return options.is_full = true;
  if (word == "--first") return options.is_until_first = true;
  if (word == "--table") return options.has_table = true;
  if (word == "--large") return options.size = Size::kLarge, true;
  return false;
}

bool read_value(Options& options, const std::string& word, const char* value) {
  const auto number = std::strtoull(value, nullptr, 10);
  if (word == "--seed") return options.first = number, true;
  if (word == "--worlds") return options.worlds = number, true;
  if (word == "--nodes") return options.cut.nodes = static_cast<int>(number), true;
  if (word == "--ranks") return options.cut.ranks = static_cast<int>(number), true;
  if (word == "--steps") return options.cut.steps = static_cast<std::int64_t>(number), true;
  if (word != "--without") return false;
  std::istringstream list(value);
  for (std::string fault; std::getline(list, fault, ',');) options.cut.without.push_back(std::atoi(fault.c_str()));
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

void tell(const Plan& plan, const Result& result, const Options& options, const Cut& cut) {
  fmt::print("seed {}: {}\n{}\n{}", plan.seed, result.has_failed ? result.violation : "holds", to_text(plan),
             result.story);
  fmt::print("replay: lockstep-sim --seed {}{}{} --full\n\n", plan.seed, options.size == Size::kLarge ? " --large" : "",
             to_text(cut));
}

void tell_smaller(const Plan& plan, const Options& options, const Scratch& scratch, const std::string& violation) {
  const Cut cut = shrink(plan, violation, scratch);
  const Plan least = smaller(plan, cut);
  tell(least, run_world(least, scratch, options.is_full), options, cut);
}

// Returns true if the second run of a seed is identical to the first, down to each thread's turns.
bool is_same_again(const Plan& plan, const Scratch& scratch, std::uint64_t digest) {
  const Result& again = run_world(plan, scratch);
  if (again.digest == digest) return true;
  fmt::print("seed {} runs in another way the second time: {:016x}, {:016x}\n", plan.seed, digest, again.digest);
  return false;
}

int run(const Options& options) {
  const Scratch scratch;
  const auto begin = std::chrono::steady_clock::now();
  Totals totals;
  std::uint64_t differ = 0;
  for (std::uint64_t seed = options.first; seed < options.first + options.worlds; ++seed) {
    if (options.is_until_first && totals.failed > 0) break;
    const Plan plan = smaller(draw_plan(seed, options.size), options.cut);
    const Result& result = run_world(plan, scratch, options.is_full);
    totals.add(result);
    const std::string violation = result.violation;
    const std::uint64_t digest = result.digest;
    if (result.has_failed || options.is_full) tell(plan, result, options, options.cut);
    if (!violation.empty() && options.shrinks) tell_smaller(plan, options, scratch, violation);
    if (options.is_twice && !is_same_again(plan, scratch, digest)) ++differ;
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  const std::string table = to_text(totals, passed.count());
  fmt::print("{}", options.has_table ? table : table.substr(table.rfind('\n', table.size() - 2) + 1));
  const auto missing = totals.missing();
  for (const std::string& name : missing) fmt::print("in none of these worlds: {}\n", name);
  return totals.failed + differ == 0 && missing.empty() ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) {
  lockstep::sim::fix_addresses(argv);
  lockstep::sim::Options options;
  if (!lockstep::sim::read_options(options, argc, argv)) {
    std::fputs(lockstep::sim::kUsage, stderr);
    return 64;
  }
  return lockstep::sim::run(options);
}
