// SPDX-License-Identifier: Apache-2.0
// Variables of several schedulers at once, and the places where a scheduler's ranks meet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace schedulers_test
}  // namespace lockstep
