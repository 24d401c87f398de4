// SPDX-License-Identifier: Apache-2.0
// One step of each optimizer on the captcha network's parameters, beside a kernel that only moves as much memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::worker {

struct OptimizerBench {
  std::vector<std::string> optimizers = {};  ///< some of optimizer_bench_names(); empty: all
  std::int64_t repeats = 9;
  int threads = 1;
  bool json = false;
};

[[nodiscard]] std::vector<std::string> optimizer_bench_names();

/// Throws: UsageError for an unknown name.
int run_optimizer_bench(const OptimizerBench& bench);

}  // namespace lockstep::worker
