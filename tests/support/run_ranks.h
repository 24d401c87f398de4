// SPDX-License-Identifier: Apache-2.0
// Tests of several ranks: each is a fork of a template process (rank_template.h), or, if that is impossible, the test
// binary re-executed (forking once libtorch has threads can deadlock). A test of two ranks, in any gtest binary that
// adds ../support/run_ranks.cpp to its SOURCES:
//
//   RANKS_TEST(AllReduce, SumsOverTwoRanks, 2) {          // job: lockstep::Job&, on every rank
//     auto t = at::full({3}, job.rank() + 1.0);
//     job.group().all_reduce(t).wait();
//     EXPECT_EQ(t[0].item<float>(), 3);                    // a failed expectation on any rank fails the test
//   }
//
// A failure shows the first failing rank and the tail of its log; stragglers are killed at the deadline.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"

namespace lockstep::testing {

struct RanksOptions {
  int world = 2;
  std::map<std::string, std::string> env = {};  ///< environment variables of every rank, added to this process's own
  std::chrono::seconds deadline{60};            ///< deadline, which is several times longer under a sanitizer
  bool by_hand = false;  ///< true: only MASTER_ADDR and MASTER_PORT are set, and rank 0 serves the store
  /// If not empty, the ranks claim to be on several hosts with these numbers of ranks, and share memory within a host.
  std::vector<int> host_sizes = {};
};

/// How one rank ended.
struct RankEnd {
  int code = -1;  ///< exit code; 128 + n for signal n; -1: killed at the deadline
  std::string log;
};

/// The running ranks of one test. Its destructor kills ranks that are still running and removes the logs.
class RankProcesses {
 public:
  /// Starts the ranks that run `body`. In a rank it runs the body and ends the process with its exit code, so a rank
  /// never reaches the code after it. `name` is the running test, "Suite.Name".
  RankProcesses(const std::string& name, const std::function<void(Job&)>& body, const RanksOptions& options);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  [[nodiscard]] pid_t pid(int rank) const;
  /// Waits until `text` is in the rank's log (stdout and stderr); false at the deadline.
  [[nodiscard]] bool wait_for_log(int rank, const std::string& text);
  /// The folder for the ranks' TMPDIR and XDG_RUNTIME_DIR.
  [[nodiscard]] std::string temporary_folder() const;
  /// Waits for all ranks; kills ranks still running at the deadline.
  [[nodiscard]] std::vector<RankEnd> wait();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Starts the ranks and expects every rank to end with 0.
void run_ranks(const std::string& name, const std::function<void(Job&)>& body, const RanksOptions& options);

/// A port of 127.0.0.1 that was free a moment ago.
[[nodiscard]] int free_port();

/// The name of the running test, "Suite.Name".
[[nodiscard]] std::string current_test();

}  // namespace lockstep::testing

#define RANKS_TEST(Suite, Name, ranks)                                                                             \
  static void Suite##_##Name##_body(lockstep::Job& job);                                                           \
  TEST(Suite, Name) { lockstep::testing::run_ranks(#Suite "." #Name, Suite##_##Name##_body, {.world = (ranks)}); } \
  static void Suite##_##Name##_body([[maybe_unused]] lockstep::Job& job)
