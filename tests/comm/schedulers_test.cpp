// SPDX-License-Identifier: Apache-2.0
// Variables of several schedulers at once, and the places where a scheduler's ranks meet.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "comm/addresses/dist_url.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/discovery.h"

namespace lockstep {
namespace schedulers_test {

/// The environment of one rank on the second of two nodes. mpirun has started its daemon there with srun.
Environment in_daemon_of_mpirun(const Environment& of_mpi) {
  Environment environment = {{"SLURM_PROCID", "1"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_NODEID", "1"},
                             {"SLURM_NTASKS", "2"},
                             {"SLURM_STEP_NUM_TASKS", "2"},
                             {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                             {"SLURM_STEP_NODELIST", "n[1-2]"},
                             {"SLURM_JOB_ID", "4711"},
                             {"SLURM_STEP_ID", "0"},
                             {"MASTER_ADDR", "n1"},
                             {"MASTER_PORT", "4001"}};
  environment.insert(of_mpi.begin(), of_mpi.end());
  return environment;
}

TEST(Schedulers, OpenMpiInASlurmAllocationNumbersTheRanks) {
  const auto info = discover_world(in_daemon_of_mpirun({{"OMPI_COMM_WORLD_RANK", "3"},
                                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}))
                        .info;
  EXPECT_EQ(info.source, "Open MPI");
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.world_size, 4);
  EXPECT_EQ(info.local_rank, 1);
}

TEST(Schedulers, HydraInASlurmAllocationNumbersTheRanks) {
  const auto info = discover_world(in_daemon_of_mpirun({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}})).info;
  EXPECT_EQ(info.source, "PMI") << "the step has 2 tasks";
  EXPECT_EQ(info.world_size, 4);
  EXPECT_EQ(discover_world(in_daemon_of_mpirun({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})).info.rank, 0)
      << "the daemon is task 1";
}

TEST(Schedulers, SrunWithPmiKnowsTheHostOfRankZero) {
  Environment environment = in_daemon_of_mpirun({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  environment.erase("MASTER_ADDR");
  environment.erase("MASTER_PORT");
  const auto plan = discover_world(environment);
  EXPECT_EQ(plan.info.source, "Slurm");
  EXPECT_EQ(plan.host, "n1");
}

/// The environment of a rank in a step of srun over two nodes.
Environment in_step(const std::string& job, const std::string& step) {
  return {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"},   {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
          {"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}, {"SLURM_STEP_NODELIST", "n[1-2]"}};
}

TEST(Schedulers, StepsOfOneSlurmJobMeetAtDifferentPorts) {
  EXPECT_EQ(discover_world(in_step("4711", "0")).port, 24711);
  EXPECT_EQ(discover_world(in_step("4711", "1")).port, 20892);
  EXPECT_EQ(discover_world(in_step("9999", "2")).port, 22361);
  EXPECT_EQ(discover_world(in_step("4294967295", "4294967295")).port, 27690) << "the largest numbers";
}

TEST(Schedulers, NeighbouringSlurmJobsOfOneMachineMeetAtDifferentPorts) {
  std::map<int, std::string> taken;
  for (int job = 100; job < 116; ++job) {  // of one array, on one machine
    for (int step = 0; step < 12; ++step) {
      const std::string name = fmt::format("{}.{}", job, step);
      const auto [place, is_new] =
          taken.emplace(discover_world(in_step(std::to_string(job), std::to_string(step))).port, name);
      EXPECT_TRUE(is_new) << name << " and " << place->second;
    }
  }
}

TEST(Schedulers, SlurmJobsWithOnePortHaveDifferentKeys) {
  const auto one = discover_world(in_step("4711", "0"));
  const auto other = discover_world(in_step("14711", "0"));
  EXPECT_EQ(one.port, other.port);
  EXPECT_EQ(one.prefix, "slurm-step-4711.0/");
  EXPECT_EQ(other.prefix, "slurm-step-14711.0/");
}

TEST(Schedulers, APortThatTheUserChoseNeedsNoKeysOfTheStep) {
  Environment environment = in_step("4711", "0");
  environment["MASTER_PORT"] = "4001";
  EXPECT_EQ(discover_world(environment).port, 4001);
  EXPECT_EQ(discover_world(environment).prefix, "");
}

TEST(Schedulers, AnAddressAloneStartsNoJob) {
  for (const Environment& environment :
       {Environment{{"MASTER_ADDR", "h"}}, Environment{{"MASTER_PORT", "tcp://10.0.0.1:29500"}},
        Environment{{"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}, {"LOCAL_RANK", "-1"}}}) {
    EXPECT_EQ(discover_world(environment).info, RankInfo());
  }
  const Environment old_script = {{"RANK", "3"},        {"WORLD_SIZE", "4"},     {"LOCAL_RANK", "-1"},
                                  {"MASTER_ADDR", "h"}, {"MASTER_PORT", "4001"}, {"LOCAL_WORLD_SIZE", "2"}};
  EXPECT_EQ(discover_world(old_script).info.local_rank, 1) << "-1 means that there is no value";
}

TEST(Schedulers, AnAddressAloneIsNoted) {
  EXPECT_THAT(comm::note_on_address({{"MASTER_ADDR", "h"}}, RankInfo()),
              ::testing::StartsWith("MASTER_ADDR is set, but RANK and WORLD_SIZE are not: this process is alone"));
  EXPECT_THAT(comm::note_on_address({{"MASTER_PORT", "tcp://10.0.0.1:29500"}}, RankInfo()),
              ::testing::StartsWith("MASTER_PORT is set"));
  EXPECT_EQ(comm::note_on_address({{"MASTER_ADDR", "h"}}, {.world_size = 2, .source = "Slurm"}), "");
  EXPECT_EQ(comm::note_on_address({}, RankInfo()), "");
}

TEST(Schedulers, AnIPv6AddressMayHaveBrackets) {
  Environment environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "[::1]"}, {"MASTER_PORT", "4001"}};
  EXPECT_EQ(discover_world(environment).host, "::1");
  EXPECT_EQ(comm::plan_world({.url = "tcp://[fd00::1]:29500", .rank = "0", .world_size = "2"}, {}).host, "fd00::1");
  EXPECT_THAT(([] { (void)comm::plan_world({.url = "tcp://[fd00::1]", .rank = "0", .world_size = "2"}, {}); }),
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("tcp://[fd00::1] has no host:port")));
}

TEST(Schedulers, PalsNamesTheLocalRankDifferently) {
  const Environment pals = {{"PMI_RANK", "5"},       {"PMI_SIZE", "8"},     {"PMI_LOCAL_RANK", "1"},
                            {"PMI_LOCAL_SIZE", "4"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "4001"}};
  EXPECT_EQ(discover_world(pals).info.local_rank, 1);
  EXPECT_EQ(discover_world(pals).info.local_world_size, 4);
  EXPECT_EQ(discover_world(pals).info.node_rank, 1);
  Environment intel = pals;
  intel["MPI_LOCALRANKID"] = "2";
  intel["MPI_LOCALNRANKS"] = "8";
  EXPECT_EQ(discover_world(intel).info.local_rank, 2);
}

}  // namespace schedulers_test
}  // namespace lockstep
