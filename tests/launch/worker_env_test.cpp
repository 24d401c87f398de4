// SPDX-License-Identifier: Apache-2.0
#include "launch/worker_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launch {
namespace worker_env_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Not;
using ::testing::StartsWith;

EnvironmentSpec spec() {
  return {
      .place = {.local_rank = 1, .local_world_size = 2, .first_rank = 4, .world_size = 8, .node_rank = 2, .nodes = 3},
      .master_addr = "10.0.0.1",
      .master_port = 12345,
      .store = {.host = "10.0.0.1", .port = 29500, .token = "secret"},
      .error_file = "/logs/error.json",
      .role = "trainer",
      .run_id = "job",
      .restart_count = 1,
      .max_restarts = 3,
      .blas_core = {},
      .extra = {}};
}

TEST(WorkerEnvironment, HasTorchrunsVariables) {
  const auto variables = worker_environment({"HOME=/home/me"}, spec());
  for (const char* expected : {"HOME=/home/me",
                               "RANK=5",
                               "LOCAL_RANK=1",
                               "WORLD_SIZE=8",
                               "LOCAL_WORLD_SIZE=2",
                               "GROUP_RANK=2",
                               "GROUP_WORLD_SIZE=3",
                               "ROLE_RANK=5",
                               "ROLE_WORLD_SIZE=8",
                               "ROLE_NAME=trainer",
                               "MASTER_ADDR=10.0.0.1",
                               "MASTER_PORT=12345",
                               "TORCHELASTIC_RESTART_COUNT=1",
                               "TORCHELASTIC_MAX_RESTARTS=3",
                               "TORCHELASTIC_RUN_ID=job",
                               "TORCHELASTIC_USE_AGENT_STORE=False",
                               "TORCHELASTIC_ERROR_FILE=/logs/error.json",
                               "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
                               "OMP_NUM_THREADS=1",
                               "LOCKSTEP_STORE=10.0.0.1:29500",
                               "LOCKSTEP_STORE_TOKEN=secret",
                               "LOCKSTEP_ERROR_FILE=/logs/error.json"}) {
    EXPECT_THAT(variables, Contains(expected));
  }
}

TEST(WorkerEnvironment, SaysHowManyRanksTheJobMayHave) {
  EnvironmentSpec range = spec();
  range.max_world_size = 16;
  EXPECT_THAT(worker_environment({"LOCKSTEP_MIN_WORLD_SIZE=2"}, range),
              AllOf(Contains("LOCKSTEP_MAX_WORLD_SIZE=16"), Not(Contains(StartsWith("LOCKSTEP_MIN_WORLD_SIZE")))))
      << "an outer job's size is not that of this one";
  range.min_world_size = 4;
  EXPECT_THAT(worker_environment({}, range), Contains("LOCKSTEP_MIN_WORLD_SIZE=4"));
}

TEST(WorkerEnvironment, ReplacesWhatAnOuterLauncherLeft) {
  const auto variables = worker_environment({"RANK=17", "WORLD_SIZE=99", "TORCHELASTIC_USE_AGENT_STORE=True"}, spec());
  EXPECT_THAT(variables, Contains("RANK=5"));
  EXPECT_THAT(variables, Not(Contains("RANK=17")));
  EXPECT_THAT(variables, Not(Contains("TORCHELASTIC_USE_AGENT_STORE=True")));
}

TEST(WorkerEnvironment, TakesTheSchedulersRanksAwayAndLeavesTheJob) {
  const auto variables = worker_environment(
      {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=77", "PMI_RANK=0", "PMIX_RANK=0", "OMPI_COMM_WORLD_RANK=0"},
      spec());
  EXPECT_THAT(variables, Contains("SLURM_JOB_ID=77"));
  for (const char* prefix : {"SLURM_PROCID", "SLURM_NTASKS", "PMI_", "PMIX_", "OMPI_"}) {
    EXPECT_THAT(variables, Each(Not(StartsWith(prefix))));
  }
}

TEST(WorkerEnvironment, KeepsTheUsersThreads) {
  EXPECT_THAT(worker_environment({"OMP_NUM_THREADS=4"}, spec()), Contains("OMP_NUM_THREADS=4"));
  auto alone = spec();
  alone.place.local_world_size = 1;
  EXPECT_THAT(worker_environment({}, alone), Each(Not(StartsWith("OMP_NUM_THREADS"))));
}

TEST(WorkerEnvironment, ChoosesTheKernelsOfOpenBlasWhereTheUserHasNot) {
  auto known = spec();
  known.blas_core = "Cooperlake";
  EXPECT_THAT(worker_environment({}, known), Contains("OPENBLAS_CORETYPE=Cooperlake"));
  EXPECT_THAT(worker_environment({"OPENBLAS_CORETYPE=Zen"}, known), Contains("OPENBLAS_CORETYPE=Zen"));
  EXPECT_THAT(worker_environment({}, spec()), Each(Not(StartsWith("OPENBLAS_CORETYPE"))));
}

TEST(WorkerEnvironment, ExtraVariablesWin) {
  auto with_extra = spec();
  with_extra.extra = {{"OMP_NUM_THREADS", "8"}, {"NEW", "x=y"}};
  const auto variables = worker_environment({"NEW=old"}, with_extra);
  EXPECT_THAT(variables, Contains("OMP_NUM_THREADS=8"));
  EXPECT_THAT(variables, Contains("NEW=x=y"));
  EXPECT_THAT(variables, Not(Contains("NEW=old")));
}

}  // namespace worker_env_test
}  // namespace lockstep::launch
