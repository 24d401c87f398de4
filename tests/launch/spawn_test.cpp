// SPDX-License-Identifier: Apache-2.0
// spawn() inside a program: the test re-executes itself as that program.
#include "lockstep/launch/spawn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string own_path;

using Variables = std::vector<std::pair<std::string, std::string>>;

// `what`: see run_program_of_test() below. Of the variables that a launcher sets, the program gets only those in
// `more`.
test::ProcessOptions program(const std::string& processes, const std::string& what, const Variables& more = {}) {
  Variables variables = {{"OMP_NUM_THREADS", "1"}};
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCKSTEP_STORE", "LOGS", "SLURM_STEP_ID",
                           "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    variables.emplace_back(name, "");
  }
  variables.insert(variables.end(), more.begin(), more.end());
  return {.command = {own_path, "program", processes, what, "two words"}, .environment = variables};
}

TEST(Spawn, TwoRanksSeeAWorldOfTwoAndTheArguments) {
  const auto result = test::run_process(program("2", "say"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[0]: rank 0 of 2, two words\n"));
  EXPECT_THAT(result.out, HasSubstr("[1]: rank 1 of 2, two words\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("rank none"))) << "spawn returned in the process that starts the ranks";
}

TEST(Spawn, ARanksExitCodeBecomesTheProgramsAndItsLogStays) {
  const test::TempDir folder;
  const auto result = test::run_process(program("2", "fail", {{"LOGS", folder.path().string()}}));
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("rank 1 failed first: exit code 3"));
  EXPECT_TRUE(std::filesystem::exists(folder / "attempt_0/rank-1/stdout.log"));
}

TEST(Spawn, AnExceptionOfARankIsToldWithItsPlaceAndBacktrace) {
  const auto result = test::run_process(program("2", "throw"));
  EXPECT_EQ(result.code, 71);
  EXPECT_THAT(result.err, HasSubstr("rank 1 failed first: exit code 71"));
  EXPECT_THAT(result.err, HasSubstr("error   ProgramError: your program threw std::out_of_range (rank 1): no label\n"));
  EXPECT_THAT(result.err, HasSubstr("run_program_of_test"));
  EXPECT_THAT(result.err, Not(HasSubstr("last lines"))) << "they are the error's own";
}

TEST(Spawn, ASignalOfARankIsToldWithItsBacktrace) {
  if (test::kAnySanitizer) GTEST_SKIP() << "a sanitizer reports signals itself";
  const auto result = test::run_process(program("2", "segv"));
  EXPECT_EQ(result.code, 128 + SIGSEGV);
  EXPECT_THAT(result.err, HasSubstr("rank 1 failed first: killed by signal 11 (SIGSEGV)"));
  EXPECT_THAT(result.err, HasSubstr("error   SIGSEGV (rank 1): address 0x10\n"));
  EXPECT_THAT(result.err, HasSubstr("run_program_of_test"));
}

TEST(Spawn, InARankItReturnsAtOnce) {
  const auto result = test::run_process(program("2", "say", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "rank 0 of 1, two words\n");
}

TEST(Spawn, OneProcessIsAWorldOfOneWithoutAnAgent) {
  const auto result = test::run_process(program("1", "say"));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "rank none of none, two words\n");
}

TEST(Spawn, WhatIsWrongIsPrintedAndBecomesTheExitCode) {
  const auto result = test::run_process(program("-1", "say"));
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, HasSubstr("spawn: -1 processes"));
  EXPECT_EQ(result.out, "");
}

TEST(Spawn, AStopReachesTheRanksThoughOtherThreadsRunHere) {
  test::Process process(program("2", "thread"));
  ASSERT_TRUE(process.wait_for_output("[0]: ready") && process.wait_for_output("[1]: ready"));
  process.signal(SIGTERM);
  const auto result = process.wait();
  EXPECT_EQ(result.code, 143);
  EXPECT_THAT(result.out, HasSubstr("[0]: asked to stop\n"));
  EXPECT_THAT(result.out, HasSubstr("[1]: asked to stop\n"));
  EXPECT_THAT(result.err, HasSubstr("logs"));
}

bool says_rank(const Variables& variables) { return test::run_process(program("1", "is-rank", variables)).code == 0; }

TEST(IsRank, KnowsEveryLauncher) {
  EXPECT_FALSE(says_rank({}));
  EXPECT_TRUE(says_rank({{"RANK", "0"}}));
  EXPECT_TRUE(says_rank({{"WORLD_SIZE", "2"}})) << "half set: init() refuses it, spawn() must not hide it";
  EXPECT_TRUE(says_rank({{"OMPI_COMM_WORLD_RANK", "1"}}));
  EXPECT_TRUE(says_rank({{"PMI_RANK", "1"}}));
  EXPECT_FALSE(says_rank({{"LOCAL_RANK", "-1"}})) << "old scripts set it to say that there is none";
}

TEST(IsRank, OfSlurmOnlyAStepOfSeveralTasksCounts) {
  Variables step = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  EXPECT_TRUE(says_rank(step));
  step.emplace_back("SLURM_STEP_NUM_TASKS", "1");
  EXPECT_FALSE(says_rank(step)) << "srun -n 1 in an allocation of four tasks";
  EXPECT_FALSE(says_rank({{"SLURM_STEP_ID", "4294967291"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}))
      << "the batch script is no rank";
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "none" : value;
}

void on_stop(int) {
  constexpr char kText[] = "asked to stop\n";
  (void)!::write(STDOUT_FILENO, kText, sizeof kText - 1);
  ::_exit(0);
}

int wait_for_stop() {
  ::signal(SIGTERM, on_stop);
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;) ::pause();
}

}  // namespace

// The program: PROCESSES WHAT MORE.
int run_program_of_test(int argc, char** argv) {
  const std::string what = argv[3];
  if (what == "is-rank") return is_rank() ? 0 : 1;
  if (what == "thread") {
    std::thread([] {
      for (;;) ::pause();
    }).detach();
  }
  SpawnOptions options{.processes = std::atoi(argv[2])};
  if (std::getenv("LOGS") != nullptr) options.log_dir = variable("LOGS");  // NOLINT(concurrency-mt-unsafe)
  spawn(argc, argv, options);
  std::printf("rank %s of %s, %s\n", variable("RANK"), variable("WORLD_SIZE"), argv[4]);
  if (what == "thread") return wait_for_stop();
  const bool is_one = std::string(variable("RANK")) == "1";
  if (what == "throw" && is_one) throw std::out_of_range("no label");
  if (what == "segv" && is_one) *reinterpret_cast<volatile int*>(0x10) = 1;
  return what == "fail" && std::string(variable("RANK")) == "1" ? 3 : 0;
}

}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "program") return lockstep::run_program_of_test(argc, argv);
  lockstep::own_path = std::filesystem::read_symlink("/proc/self/exe");
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
