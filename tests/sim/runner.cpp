// SPDX-License-Identifier: Apache-2.0
#include "sim/runner.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"
#include "sim/process.h"

namespace lockstep::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kEnoughForAll = 1000;  // worlds

Result& shared_result() {
  static auto* result =
      static_cast<Result*>(::mmap(nullptr, sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *result;
}

}  // namespace

// The name must not contain "lockstep": a test of comm fails if it finds such names in /dev/shm.
Scratch::Scratch() {
  char folder[] = "/dev/shm/worlds-XXXXXX";
  if (::mkdtemp(folder) == nullptr) throw IoError("no folder for the worlds' logs can be made in /dev/shm");
  path_ = folder;
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

const Result& run_world(const Plan& plan, const Scratch& scratch, bool is_full) {
  Result& result = shared_result();
  std::memset(static_cast<void*>(&result), 0, offsetof(Result, story) + 1);
  result.is_full = is_full;
  const int status = run_alone([&] {
    fs::current_path(scratch.path());
    fs::create_directory("logs");
    World(plan, result).run();
  });
  if (!result.is_done) {
    result.has_failed = true;
    std::snprintf(result.violation, sizeof result.violation, "the world's process ends with wait status %d", status);
  }
  fs::remove_all(fs::path(scratch.path()) / "logs");
  return result;
}

void Totals::add(const Result& result) {
  ++worlds;
  failed += result.has_failed ? 1 : 0;
  succeeded += result.has_succeeded ? 1 : 0;
  rounds += static_cast<std::uint64_t>(result.rounds);
  turns += result.steps;
  most.raise_to(result.most);
  most_share.raise_to(result.most_share);
  virtual_s += static_cast<double>(result.lasted) * 1e-9;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    faults[i] += result.faults[i];
    worlds_with[i] += result.faults[i] > 0 ? 1 : 0;
  }
  for (std::size_t i = 0; i < network.size(); ++i) {
    network[i] += result.network[i];
    worlds_with_network[i] += result.network[i] > 0 ? 1 : 0;
  }
}

std::vector<std::string> Totals::missing() const {
  std::vector<std::string> names;
  if (worlds < kEnoughForAll) return names;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    if (faults[i] == 0) names.emplace_back(name_of(static_cast<Fault::Kind>(i)));
  }
  for (std::size_t i = 0; i < network.size(); ++i) {
    if (network[i] == 0) names.emplace_back(name_of(static_cast<NetworkEvent>(i)));
  }
  return names;
}

std::string to_text(const Totals& totals, double seconds) {
  std::string text = fmt::format("{:<18} {:>10} {:>10}\n", "fault", "times", "worlds");
  for (std::size_t i = 0; i < totals.faults.size(); ++i) {
    text += fmt::format("{:<18} {:>10} {:>10}\n", name_of(static_cast<Fault::Kind>(i)), totals.faults[i],
                        totals.worlds_with[i]);
  }
  text += fmt::format("{:<18} {:>10} {:>10}\n", "network", "times", "worlds");
  for (std::size_t i = 0; i < totals.network.size(); ++i) {
    text += fmt::format("{:<18} {:>10} {:>10}\n", name_of(static_cast<NetworkEvent>(i)), totals.network[i],
                        totals.worlds_with_network[i]);
  }
  text += fmt::format(
      "an agent had at most {} KiB, {} descriptors and {} threads: {}, {} and {} % of what its world allows\n",
      totals.most.heap >> 10, totals.most.descriptors, totals.most.threads, totals.most_share.heap,
      totals.most_share.descriptors, totals.most_share.threads);
  return text +
         fmt::format(
             "{} worlds in {:.1f} s ({:.0f} a second), {} failed; {} jobs reached their last step, in {} rounds; "
             "{:.1f} hours of virtual time, {} turns of threads\n",
             totals.worlds, seconds, static_cast<double>(totals.worlds) / seconds, totals.failed, totals.succeeded,
             totals.rounds, totals.virtual_s / 3600, totals.turns);
}

}  // namespace lockstep::sim
