// SPDX-License-Identifier: Apache-2.0
#include "address_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"

namespace lockstep::apps {
namespace {

constexpr const char* kRemedy =
    "raise the limit (ulimit -v, or the memory of the job), or set OMP_NUM_THREADS to a smaller number";

// Returns what is wrong with the limit for `program`; empty if it is high enough.
std::string problem_of(const std::string& program, int threads) {
  constexpr std::uint64_t kLibraries = 640'000'000;
  constexpr std::uint64_t kOfAThread = 134'217'728;
  const std::uint64_t needed = kLibraries + kOfAThread * static_cast<std::uint64_t>(threads);
  const auto allowed = resource_limits().address_space;
  if (!allowed || *allowed >= needed) return "";
  return fmt::format("the limit on address space (ulimit -v) is {}, and {} needs {} with {}", text::bytes(*allowed),
                     program, text::bytes(needed), text::counted(threads, "OpenBLAS thread"));
}

}  // namespace

int blas_threads(bool one_by_default) {
  constexpr int kMost = 128;
  for (const char* name : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const int threads = std::atoi(env::get(name).value_or("").c_str());
    if (threads > 0) return std::min(threads, kMost);
  }
  return one_by_default ? 1 : std::min(static_cast<int>(std::thread::hardware_concurrency()), kMost);
}

void require_address_space(int threads) {
  const std::string problem = problem_of("lockstep-worker", threads);
  if (!problem.empty()) throw ResourceError(problem, kRemedy);
}

void warn_of_address_space(int threads) {
  const std::string problem = problem_of("a program that uses libtorch", threads);
  if (!problem.empty()) log::warn("{}, or it hangs: {}", problem, kRemedy);
}

}  // namespace lockstep::apps
