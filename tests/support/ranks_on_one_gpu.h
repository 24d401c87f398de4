// SPDX-License-Identifier: Apache-2.0
// Tests of several ranks that share a GPU: RanksOnOneGpu has two variants. Nccl: NCCL connects the ranks through
// sockets; communicators, kernels and aborts are real. Double: the fake NCCL exchanges the data in the GPU's memory; it
// does not limit the number of ranks, and its calls can be recorded. Streams, events and graphs are real in both.
//
//   TEST_P(RanksOnOneGpu, Sum) {
//     LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
//     run_ranks(current_test(), body, ranks_on_one_gpu(2, GetParam()));
//   }
//   LOCKSTEP_RANKS_ON_ONE_GPU();
#pragma once

#include <map>
#include <string>

#include "support/gpu.h"
#include "support/run_ranks.h"

namespace lockstep::testing {

/// The library that connects the ranks: `path` is empty for NCCL itself.
struct Connection {
  const char* name = "";
  const char* path = "";
};

inline const Connection kNccl{"Nccl", ""};
inline const Connection kDouble{"Double", LOCKSTEP_NCCL_DOUBLE_ON_CUDA};

inline std::string why_no_ranks_on_one_gpu(const Connection& connection) {
  return *connection.path == '\0' ? why_no_nccl() : why_no_gpu();
}

/// The environment variables of ranks that share a GPU.
inline std::map<std::string, std::string> shared_gpu(const Connection& connection) {
  std::map<std::string, std::string> variables{{"LOCKSTEP_SHARE_GPUS", "nccl"}};
  if (*connection.path != '\0') variables["LOCKSTEP_NCCL"] = connection.path;
  return variables;
}

inline RanksOptions ranks_on_one_gpu(int world, const Connection& connection, const std::string& timeout = "60") {
  RanksOptions options{.world = world, .env = shared_gpu(connection)};
  options.env["LOCKSTEP_DEVICE"] = "cuda";
  options.env["LOCKSTEP_TIMEOUT"] = timeout;
  return options;
}

class RanksOnOneGpu : public ::testing::TestWithParam<Connection> {};

}  // namespace lockstep::testing

#define LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU()                                                                   \
  if (const std::string reason = ::lockstep::testing::why_no_ranks_on_one_gpu(GetParam()); !reason.empty()) \
  GTEST_SKIP() << reason
#define LOCKSTEP_RANKS_ON_ONE_GPU()                                                                     \
  INSTANTIATE_TEST_SUITE_P(By, RanksOnOneGpu,                                                           \
                           ::testing::Values(::lockstep::testing::kNccl, ::lockstep::testing::kDouble), \
                           [](const auto& test) { return std::string(test.param.name); })
