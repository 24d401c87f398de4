// SPDX-License-Identifier: Apache-2.0
// How a rank finds the others: the environment, an address, torchrun's store.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#if __has_include(<torch/csrc/distributed/c10d/TCPStore.hpp>)
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "comm/addresses/address_file.h"
#include "comm/addresses/dist_url.h"
#include "comm/addresses/slurm.h"
#include "comm/addresses/torch_store.h"
#include "comm/network/wire.h"
#include "comm/wiring/select.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/discovery.h"
#include "lockstep/tensor/torch_version.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace discovery_test {

using ::testing::HasSubstr;

template <class Error>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string usage_error(const Environment& environment) {
  return message_of<UsageError>([&] { (void)discover_world(environment); });
}

TEST(Discovery, IsAWorldOfOneInAnEmptyEnvironment) {
  const auto plan = discover_world({});
  EXPECT_EQ(plan.info, RankInfo{});
  EXPECT_EQ(plan.store, StoreKind::kNone);
}

TEST(Discovery, JoinsTheLaunchersStore) {
  const auto plan = discover_world({{"RANK", "3"},
                                    {"WORLD_SIZE", "4"},
                                    {"LOCAL_RANK", "1"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"GROUP_RANK", "1"},
                                    {"LOCKSTEP_STORE", "10.0.0.1:4000"},
                                    {"LOCKSTEP_STORE_TOKEN", "t"},
                                    {"LOCKSTEP_STORE_PREFIX", "rounds/7/2/"},
                                    {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_EQ(plan.store, StoreKind::kAgent);
  EXPECT_EQ(plan.host, "10.0.0.1");
  EXPECT_EQ(plan.port, 4000);
  EXPECT_EQ(plan.token, "t");
  EXPECT_EQ(plan.prefix, "rounds/7/2/");
  EXPECT_EQ(plan.info.rank, 3);
  EXPECT_EQ(plan.info.local_rank, 1);
  EXPECT_EQ(plan.info.node_rank, 1);
  EXPECT_EQ(plan.info.restart_count, 2);
}

TEST(Discovery, JoinsTorchrunsStoreUnderItsPrefix) {
  const auto plan = discover_world({{"RANK", "0"},
                                    {"WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "h"},
                                    {"MASTER_PORT", "29500"},
                                    {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                    {"TORCHELASTIC_RESTART_COUNT", "1"},
                                    {"LOCKSTEP_TOKEN", "secret"}});
  EXPECT_EQ(plan.store, StoreKind::kTorchAgent);
  EXPECT_EQ(plan.token, "secret") << "of the ranks' connections";
  EXPECT_EQ(plan.prefix, "/worker/attempt_1");
}

TEST(Discovery, LetsRankZeroServeWhenStartedByHand) {
  const auto plan = discover_world({{"RANK", "1"},
                                    {"WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", "4001"},
                                    {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                    {"LOCKSTEP_TOKEN", "secret"}});
  EXPECT_EQ(plan.store, StoreKind::kRankZero);
  EXPECT_EQ(plan.token, "secret");
  EXPECT_EQ(plan.info.local_rank, 1);
}

TEST(Discovery, ServesOnTheLoopbackWhereTheLauncherSaysThatAllRanksAreHere) {
  Environment torchrun = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "box"}, {"MASTER_PORT", "4001"}};
  EXPECT_EQ(discover_world(torchrun).host, "127.0.0.1");
  torchrun["LOCAL_WORLD_SIZE"] = "1";
  EXPECT_EQ(discover_world(torchrun).host, "box");
  torchrun.erase("LOCAL_WORLD_SIZE");
  EXPECT_EQ(discover_world(torchrun).host, "box") << "no variable says so";
  const Environment slurm = {{"SLURM_PROCID", "2"},         {"SLURM_NTASKS", "4"},
                             {"SLURM_LOCALID", "2"},        {"SLURM_STEP_TASKS_PER_NODE", "4"},
                             {"SLURM_STEP_NODELIST", "n1"}, {"SLURM_JOB_ID", "123"},
                             {"SLURM_STEP_ID", "0"}};
  EXPECT_EQ(discover_world(slurm).host, "127.0.0.1");
}

TEST(Discovery, NamesWhatAHalfSetEnvironmentLacks) {
  EXPECT_THAT(usage_error({{"RANK", "0"}}), HasSubstr("WORLD_SIZE is missing"));
  EXPECT_THAT(usage_error({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is missing"));
  EXPECT_THAT(usage_error({{"LOCAL_RANK", "0"}}), HasSubstr("RANK is missing"));
  EXPECT_THAT(usage_error({{"LOCKSTEP_STORE", "h:1"}}), HasSubstr("RANK is missing"));
  EXPECT_THAT(usage_error({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_ADDR is missing"));
  EXPECT_THAT(usage_error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}),
              HasSubstr("MASTER_PORT is missing"));
}

TEST(Discovery, RefusesValuesThatCannotBe) {
  EXPECT_THAT(usage_error({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK is 2, outside of the world of 2"));
  EXPECT_THAT(usage_error({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK is 'x'"));
  EXPECT_THAT(usage_error({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), HasSubstr("'-1'"));
  // 2^32 + 2 ranks used to become 2 in a 32-bit number.
  EXPECT_THAT(usage_error({{"RANK", "0"}, {"WORLD_SIZE", "4294967298"}}),
              HasSubstr("WORLD_SIZE is '4294967298', which is not a whole number from 0 to 1000000"));
  EXPECT_THAT(usage_error({{"RANK", "0"}, {"WORLD_SIZE", "2.5"}}), HasSubstr("WORLD_SIZE is '2.5'"));
  EXPECT_THAT(usage_error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "0"}}),
              HasSubstr("LOCAL_WORLD_SIZE is 0"));
  EXPECT_THAT(usage_error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "70000"}}),
              HasSubstr("MASTER_PORT is '70000'"));
  EXPECT_THAT(usage_error({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCKSTEP_STORE", "nowhere"}}), HasSubstr("host:port"));
}

TEST(Discovery, TakesSlurmOnlyInsideAStepOfSeveralTasks) {
  Environment slurm = {{"SLURM_PROCID", "2"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                       {"SLURM_STEP_NODELIST", "node[03-04],x"},
                       {"SLURM_JOB_ID", "123"},
                       {"SLURM_STEP_ID", "0"}};
  const auto plan = discover_world(slurm);
  EXPECT_EQ(plan.info.rank, 2);
  EXPECT_EQ(plan.info.world_size, 4);
  EXPECT_EQ(plan.info.local_world_size, 2);
  EXPECT_EQ(plan.host, "node03");
  EXPECT_EQ(plan.port, 20123);
  slurm["SLURM_STEP_ID"] = "4294967291";
  EXPECT_EQ(discover_world(slurm).info.world_size, 1);
  slurm.erase("SLURM_STEP_ID");
  EXPECT_EQ(discover_world(slurm).info.world_size, 1);
  slurm["SLURM_STEP_ID"] = "0";
  slurm["SLURM_NTASKS"] = "1";
  EXPECT_EQ(discover_world(slurm).info.world_size, 1);
}

// Large clusters number jobs up to 2^26 and beyond; each array task and step of a heterogeneous job has a number too.
TEST(Slurm, AJobMayHaveALargeNumber) {
  Environment slurm = {{"SLURM_PROCID", "0"},
                       {"SLURM_NTASKS", "2"},
                       {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                       {"SLURM_STEP_NODELIST", "n[1-2]"},
                       {"SLURM_JOB_ID", "4294967295"},
                       {"SLURM_STEP_ID", "0"}};
  EXPECT_EQ(discover_world(slurm).port, 27295);
  slurm["SLURM_JOB_ID"] = "4294967296";
  EXPECT_THAT(usage_error(slurm), HasSubstr("SLURM_JOB_ID is '4294967296'"));
}

TEST(Slurm, OtherLaunchersDoNotReadTheNumberOfTheJob) {
  const Environment torchrun = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}, {"SLURM_JOB_ID", "4_7"}};
  EXPECT_EQ(discover_world(torchrun).port, 1);
}

// As with `scontrol show hostnames` in Slurm 22.05, which allows no name after the last bracket.
TEST(Slurm, ListsOfHostsAreExpanded) {
  const std::vector<std::pair<std::string, std::string>> lists = {
      {"login", "login"},
      {"a,b", "a b"},
      {",a b\n", "a b"},
      {"[1-3],10.0.0.[1-2]", "1 2 3 10.0.0.1 10.0.0.2"},
      {"n[1-002]", "n1 n2"},
      {"n[008-10]-[1-2]", "n008-1 n008-2 n009-1 n009-2 n010-1 n010-2"},
      {"node[1-2]-ib", "node1-ib node2-ib"},
      {"node[08-11]", "node08 node09 node10 node11"},
      {"node[1,3-4,007]", "node1 node3 node4 node007"},
      {"rack[1-2]node[3,5-6]", "rack1node3 rack1node5 rack1node6 rack2node3 rack2node5 rack2node6"},
      {"r[1-2][3-4]x", "r13x r14x r23x r24x"},
      {"x[1-2].a.org,y,z[09-10]", "x1.a.org x2.a.org y z09 z10"}};
  for (const auto& [list, hosts] : lists) {
    EXPECT_EQ(text::join(comm::expand_node_list(list, "LIST"), " "), hosts) << list;
  }
  EXPECT_THAT(comm::expand_node_list("a[1-100000000]", "LIST", 1), ::testing::ElementsAre("a1"));
}

TEST(Slurm, WhatIsNoListOfHostsIsAnErrorThatNamesTheVariable) {
  for (const std::string list : {"", ",", "node[1-2", "node1-2]", "node[2-1]", "node[]", "node[a-b]", "node[1[2]]"}) {
    EXPECT_THAT(message_of<UsageError>([&] { (void)comm::expand_node_list(list, "LIST"); }),
                HasSubstr("LIST is '" + list + "', which is not a list of hosts"));
  }
}

TEST(Slurm, TheFirstHostOfAnyListIsTheMaster) {
  const Environment slurm = {{"SLURM_PROCID", "0"},
                             {"SLURM_NTASKS", "2"},
                             {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                             {"SLURM_STEP_NODELIST", "node[1-2]-ib"},
                             {"SLURM_JOB_ID", "123"},
                             {"SLURM_STEP_ID", "0"}};
  EXPECT_EQ(discover_world(slurm).host, "node1-ib");
}

TEST(Slurm, NodesMayHaveDifferentNumbersOfTasks) {
  Environment slurm = {{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "4"},
                       {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "2"},
                       {"SLURM_JOB_ID", "1"},  {"SLURM_STEP_TASKS_PER_NODE", "1(x2),2"},
                       {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "a[1-3]"}};
  EXPECT_EQ(discover_world(slurm).info.local_world_size, 2);
  slurm["SLURM_PROCID"] = "1";
  slurm["SLURM_NODEID"] = "1";
  slurm["SLURM_LOCALID"] = "0";
  EXPECT_EQ(discover_world(slurm).info.local_world_size, 1);
}

TEST(Slurm, AShellOfSrunPtyIsToldThatItIsOneTask) {
  const RankInfo info{.rank = 0, .world_size = 4, .source = "Slurm"};
  EXPECT_THAT(comm::note_on_shell({{"SLURM_PTY_PORT", "4711"}}, info), HasSubstr("srun --pty shell is task 0 of 4"));
  EXPECT_EQ(comm::note_on_shell({}, info), "");
  EXPECT_EQ(comm::note_on_shell({{"SLURM_PTY_PORT", "4711"}}, RankInfo{}), "");
}

TEST(Discovery, PrefersTorchrunsVariablesAndFallsBackToMpi) {
  Environment mpi = {
      {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}};
  EXPECT_EQ(discover_world(mpi).info.source, "Open MPI");
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  mpi["OMPI_COMM_WORLD_NODE_RANK"] = "1";  // the number of this process among those of its host
  EXPECT_EQ(discover_world(mpi).info.node_rank, 0);
  mpi["RANK"] = "0";
  mpi["WORLD_SIZE"] = "1";
  EXPECT_EQ(discover_world(mpi).info.world_size, 1);
}

TEST(BackendChoice, IsLocalAloneShmOnOneHostTcpAcross) {
  using comm::choose_backend;
  EXPECT_EQ(choose_backend(BackendKind::kAuto, {{"a", "x"}}).kind, BackendKind::kLocal);
  EXPECT_EQ(choose_backend(BackendKind::kAuto, {{"a", "x"}, {"a", "x"}}).kind, BackendKind::kShm);
  const auto across = choose_backend(BackendKind::kAuto, {{"a", "x"}, {"b", "y"}});
  EXPECT_EQ(across.kind, BackendKind::kTcp);
  EXPECT_THAT(across.reason, HasSubstr("x, y"));
  EXPECT_EQ(choose_backend(BackendKind::kTcp, {{"a", "x"}, {"a", "x"}}).kind, BackendKind::kTcp);
}

TEST(DeviceChoice, IsNcclWhereEveryRankHasAGpuOfItsOwn) {
  using comm::choose_device_way;
  EXPECT_FALSE(choose_device_way(BackendKind::kAuto, {{"a", "x"}, {"a", "x"}}).nccl);
  EXPECT_TRUE(choose_device_way(BackendKind::kAuto, {{"a", "x", "a/0", "2.27"}, {"a", "x", "a/1", "2.27"}}).nccl);
  EXPECT_FALSE(choose_device_way(BackendKind::kShm, {{"a", "x", "a/0", "2.27"}, {"a", "x", "a/1", "2.27"}}).nccl);
  EXPECT_FALSE(choose_device_way(BackendKind::kAuto, {{"a", "x", "a/0", "2.27"}}).nccl);
  EXPECT_TRUE(choose_device_way(BackendKind::kNccl, {{"a", "x", "a/0", "2.27"}}).nccl);
}

TEST(DeviceChoice, AnObstacleMeansHostMemoryWithItsReasonOrWhereNcclWasAskedForAnError) {
  const std::vector<std::pair<std::vector<comm::HostFacts>, std::string>> cases = {
      {{{"a", "x", "a/0", "2.27"}, {"a", "x", "a/0", "2.27"}}, "ranks 0 and 1 share a GPU of x"},
      {{{"a", "x", "a/0", "2.27"}, {"b", "y", "", ""}}, "rank 1 on y computes on the CPU"},
      {{{"a", "x", "a/0", "2.27"}, {"b", "y", "b/0", "", "no libnccl.so.2"}},
       "rank 1 on y cannot use NCCL: no libnccl.so.2"},
      {{{"a", "x", "a/0", "2.27"}, {"b", "y", "b/0", "2.19"}}, "rank 0 has NCCL 2.27 and rank 1 on y has 2.19"},
  };
  for (const auto& [hosts, reason] : cases) {
    const auto automatic = comm::choose_device_way(BackendKind::kAuto, hosts);
    EXPECT_FALSE(automatic.nccl);
    EXPECT_THAT(automatic.reason, HasSubstr(reason));
    EXPECT_THAT(message_of<UsageError>([&] { (void)comm::choose_device_way(BackendKind::kNccl, hosts); }),
                HasSubstr(reason));
  }
  EXPECT_THAT(message_of<UsageError>([] {
                (void)comm::choose_device_way(BackendKind::kNccl, {{"a", "x"}});
              }),
              HasSubstr("rank 0 on x computes on the CPU"));
}

TEST(DeviceChoice, SlicesOfAGpuAreNotConnectedByNccl) {
  const comm::HostFacts one{.id = "a", .name = "x", .gpu = "a/M1", .nccl = "2.30", .gpu_slot = "0000:1b:00.0"};
  comm::HostFacts other = one;
  other.gpu = "a/M2";
  EXPECT_THAT(comm::choose_device_way(BackendKind::kAuto, {one, other}).reason,
              HasSubstr("ranks 0 and 1 have slices (MIG) of one GPU of x"));
  other.id = "b";
  EXPECT_TRUE(comm::choose_device_way(BackendKind::kAuto, {one, other}).nccl) << "the same slot of another host";
}

TEST(DeviceChoice, ThatGivesTwoRanksOneGpuIsAnErrorUnlessBothMayShareIt) {
  const auto on = [](const std::string& host, const std::string& gpu, bool may_share = false) {
    return comm::HostFacts{.id = host, .name = "node-" + host, .gpu = gpu, .may_share_gpu = may_share};
  };
  const auto error = message_of<ResourceError>([&] {
    comm::require_gpu_each({on("b", "b/0"), on("a", "a/0"), on("a", "a/1"), on("a", "a/0"), on("a", "a/1")});
  });
  EXPECT_THAT(error,
              HasSubstr("ranks 1 and 3 on node-a have the same GPU: 4 ranks need one GPU each but see only 2 GPUs"));
  EXPECT_THAT(error, HasSubstr("--nproc-per-node 2"));
  EXPECT_NO_THROW(comm::require_gpu_each({on("a", "a/0"), on("a", "a/1"), on("b", "b/0"), on("a", ""), on("a", "")}));
  EXPECT_NO_THROW(comm::require_gpu_each({on("a", "a/0", true), on("a", "a/0", true)}));
  EXPECT_EQ(message_of<ResourceError>([&] {
              comm::require_gpu_each({on("a", "a/0", true), on("a", "a/0")});
            }).find("ranks 0 and 1 on node-a have the same GPU: 2 ranks need one GPU each but see only 1 GPU"),
            0U);
}

TEST(BackendChoice, RefusesTheImpossible) {
  using comm::choose_backend;
  const auto error = [](BackendKind kind) {
    return message_of<UsageError>([&] { (void)choose_backend(kind, {{"a", "x"}, {"b", "y"}}); });
  };
  EXPECT_THAT(error(BackendKind::kShm), HasSubstr("rank 1 on y"));
  EXPECT_THAT(error(BackendKind::kLocal), HasSubstr("this job has 2"));
  EXPECT_THAT(message_of<UsageError>([] { (void)comm::parse_backend("shn"); }), HasSubstr("did you mean 'shm'"));
}

TEST(BackendChoice, KnowsTcpByItsOldName) {
  EXPECT_EQ(comm::parse_backend("gloo"), BackendKind::kTcp);
  EXPECT_STREQ(comm::backend_name(BackendKind::kTcp), "tcp");
  EXPECT_THAT(message_of<UsageError>([] { (void)comm::parse_backend("glo"); }),
              HasSubstr("valid values are auto, local, shm, tcp, nccl"));
}

TEST(WireNames, AreReadAndWritten) {
  for (const Wire wire : {Wire::kAuto, Wire::kTls, Wire::kPlain, Wire::kUcx}) {
    EXPECT_EQ(comm::parse_wire(comm::wire_name(wire)), wire);
  }
  EXPECT_THAT(message_of<UsageError>([] { (void)comm::parse_wire("plane"); }), HasSubstr("did you mean 'plain'"));
  EXPECT_STREQ(comm::describe_wire(Wire::kAuto), "encrypted (TLS 1.3)");
  EXPECT_STREQ(comm::describe_wire(Wire::kPlain), "plain");
}

}  // namespace discovery_test
}  // namespace lockstep

namespace lockstep::comm {
namespace discovery_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(DistUrl, OfTcpTakesRankAndWorldFromTheAddressThenTheArgumentsThenTheEnvironment) {
  const Environment environment = {{"RANK", "2"}, {"WORLD_SIZE", "7"}, {"MASTER_ADDR", "elsewhere"}};
  const auto from_address = plan_world({.url = "tcp://10.0.0.1:23456?rank=1&world_size=4", .rank = "3"}, environment);
  EXPECT_EQ(from_address.info.rank, 1);
  EXPECT_EQ(from_address.info.world_size, 4);
  EXPECT_EQ(from_address.host, "10.0.0.1");
  EXPECT_EQ(from_address.port, 23456);
  EXPECT_EQ(from_address.store, StoreKind::kRankZero);
  EXPECT_EQ(plan_world({.url = "tcp://a:1", .rank = "3"}, environment).info.rank, 3);
  EXPECT_EQ(plan_world({.url = "tcp://a:1"}, environment).info.rank, 2);
}

TEST(DistUrl, OfTcpWinsOverALaunchersStore) {
  const Environment environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCKSTEP_STORE", "127.0.0.1:9"}};
  EXPECT_EQ(plan_world({.url = "tcp://a:1"}, environment).store, StoreKind::kRankZero);
  EXPECT_EQ(plan_world({.url = "env://"}, environment).store, StoreKind::kAgent);
  EXPECT_EQ(plan_world({}, environment).store, StoreKind::kAgent);
}

TEST(DistUrl, OfTheEnvironmentTakesArgumentsThatSayTheSame) {
  const Environment environment = {
      {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"LOCKSTEP_STORE", "a:9"}};
  for (const std::string url : {"", "env://"}) {
    const auto plan = plan_world({.url = url, .rank = "3", .world_size = "4", .local_rank = "1"}, environment);
    EXPECT_EQ(plan.info.local_rank, 1);
    EXPECT_EQ(plan_world({.url = url, .local_rank = "-1"}, environment).info.rank, 3) << "their word for unknown";
  }
}

TEST(DistUrl, OfTheEnvironmentRefusesArgumentsThatContradictItWithBothValues) {
  const Environment environment = {
      {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"LOCKSTEP_STORE", "a:9"}};
  const auto words = [&](const DistArguments& arguments) -> std::string {
    try {
      (void)plan_world(arguments, environment);
    } catch (const UsageError& error) {
      return error.message();
    }
    return "no error";
  };
  EXPECT_EQ(words({.url = "env://", .local_rank = "0"}), "--local_rank is 0, but the launcher set 1");
  EXPECT_EQ(words({.rank = "2"}), "--rank is 2, but the launcher set 3");
  EXPECT_EQ(words({.world_size = "8"}), "--world_size is 8, but the launcher set 4");
}

TEST(DistUrl, WithoutALauncherAWorldSizeIsIgnoredAndSaid) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(plan_world({.world_size = "4", .local_rank = "0"}, {}).info.world_size, 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("--world_size 4 is ignored: no launcher has started this process, so its world_size is 1"));
}

TEST(DistUrl, OfAFileNamesThePath) {
  const auto plan = plan_world({.url = "file:///shared/job-7", .rank = "1", .world_size = "2"}, {});
  EXPECT_EQ(plan.store, StoreKind::kFile);
  EXPECT_EQ(plan.file, "/shared/job-7");
  EXPECT_EQ(plan.info.rank, 1);
  EXPECT_EQ(plan_world({.url = "file:///x?host=10.0.0.5", .rank = "0", .world_size = "2"}, {}).host, "10.0.0.5");
  EXPECT_EQ(plan_world({.url = "file:///x", .rank = "0", .world_size = "1"}, {}).store, StoreKind::kNone);
}

TEST(DistUrl, OfAFilePublishesAnAddressThatOtherHostsReach) {
  using Addresses = std::vector<std::string>;
  EXPECT_EQ(comm::reachable_address(Addresses{"127.0.1.1", "10.0.0.5"}), "10.0.0.5") << "/etc/hosts of Debian";
  EXPECT_EQ(comm::reachable_address(Addresses{"10.0.0.5", "10.1.0.5"}), "10.0.0.5");
  EXPECT_EQ(comm::reachable_address(Addresses{"", "169.254.0.1", "fe80::5%eth0", "::1", "fd00::5"}), "fd00::5");
  EXPECT_EQ(comm::reachable_address(Addresses{"127.0.0.1", "::1"}), std::nullopt);
}

TEST(DistUrl, ThatSaysTooLittleIsAnErrorThatSaysWhat) {
  const auto words = [](const DistArguments& arguments) -> std::string {
    try {
      (void)plan_world(arguments, {});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(words({.url = "tcp://host:1"}), HasSubstr("needs a rank"));
  EXPECT_THAT(words({.url = "tcp://host:1", .rank = "0"}), HasSubstr("needs a world size"));
  EXPECT_THAT(words({.url = "tcp://host", .rank = "0", .world_size = "2"}), HasSubstr("has no host:port"));
  EXPECT_THAT(words({.url = "mpi://host"}), HasSubstr("there is no scheme mpi://"));
  EXPECT_THAT(words({.url = "host:1"}), HasSubstr("is not an address"));
  EXPECT_THAT(words({.url = "file://x", .rank = "0", .world_size = "2"}), HasSubstr("no absolute path"));
  EXPECT_THAT(words({.url = "tcp://h:1?size=2", .rank = "0", .world_size = "2"}), HasSubstr("does not support 'size'"));
}

class AddressFile : public ::testing::Test {
 protected:
  static constexpr const char* kText = "10.0.0.7 4711 abc\n";

  std::string problem_of(const std::string& content, std::filesystem::perms mode) const {
    std::filesystem::remove(file_);
    std::ofstream(file_) << content;
    std::filesystem::permissions(file_, mode);
    const auto read = read_address(file_);
    return read ? "none" : read.error();
  }

  const test::TempDir folder_;
  const std::filesystem::path file_ = folder_.path() / "job";
  const StoreAddress address_{.host = "10.0.0.7", .port = 4711, .token = "abc"};
};

TEST_F(AddressFile, IsReadAsItWasWritten) {
  EXPECT_EQ(read_address(file_).error(), "rank 0 has not written it");
  publish_address(file_, address_);
  const auto read = read_address(file_);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->host, "10.0.0.7");
  EXPECT_EQ(read->port, 4711);
  EXPECT_EQ(read->token, "abc");
}

// A process that could read the token while the file is being written could join the job.
TEST_F(AddressFile, IsAtNoMomentOpenToOthers) {
  std::atomic<bool> is_done = false;
  std::atomic<int> seen_open = 0;
  std::thread looker([&] {
    while (!is_done) {
      std::error_code gone;
      for (std::filesystem::directory_iterator it(folder_.path(), gone), end; !gone && it != end; it.increment(gone)) {
        const auto mode = it->status(gone).permissions();
        constexpr auto kOthers = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
        if (!gone && (mode & kOthers) != std::filesystem::perms::none) ++seen_open;
      }
    }
  });
  const mode_t before = ::umask(0);
  for (int i = 0; i < 30; ++i) publish_address(file_, address_);
  ::umask(before);
  is_done = true;
  looker.join();
  EXPECT_EQ(seen_open, 0);
}

TEST_F(AddressFile, OfAnotherIsNoWordOfRankZero) {
  using std::filesystem::perms;
  EXPECT_EQ(problem_of(kText, perms::owner_read | perms::owner_write), "none");
  EXPECT_THAT(problem_of(kText, perms::owner_all | perms::group_read), HasSubstr("its mode is 0740"));
  EXPECT_THAT(problem_of(kText, perms::owner_read | perms::others_write), HasSubstr("others may read or change it"));
  std::filesystem::remove(file_);
  std::filesystem::create_symlink(folder_ / "elsewhere", file_);
  EXPECT_EQ(read_address(file_).error(), "it is a symbolic link");
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(read_address(file_).error(), "it is not a regular file") << "and no wait for its writer";
  std::filesystem::remove(file_);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  publish_address(file_, address_);
  ASSERT_EQ(::chown(file_.c_str(), 4711, 4711), 0);
  EXPECT_THAT(read_address(file_).error(), HasSubstr("belongs to user 4711"));
}

TEST_F(AddressFile, WithAnythingElseIsNoAddress) {
  for (const std::string_view text : {"", "\n", " \n", "  \n", "h 1 t", "h 0 t\n", "h 65536 t\n", "h -1 t\n", "h x t\n",
                                      "h 1 \n", " 1 t\n", "h 1 t t\n", "h 1 \x1b[0m\n", "h\x1b 1 t\n", "h  1\n"}) {
    EXPECT_FALSE(parse_address(text).ok()) << text;
  }
}

#if __has_include(<torch/csrc/distributed/c10d/TCPStore.hpp>)
// Uses torchrun's store in the same way as ours, with every version of libtorch. A TCPStore in this process takes the
// place of torchrun's.

class TorchStore : public ::testing::Test {
 protected:
  void SetUp() override {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    tensor::without_libuv(options);
    server_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    plan_ = {.host = "127.0.0.1", .port = server_->getPort(), .prefix = "attempt_0"};
  }

  c10::intrusive_ptr<c10d::TCPStore> server_;
  WorldPlan plan_;
};

TEST_F(TorchStore, IsAStoreLikeOurs) {
  const auto one = connect_torch_store(plan_, seconds(60));
  const auto two = connect_torch_store(plan_, seconds(60));
  EXPECT_EQ(two->try_get("answer"), std::nullopt);
  one->set("answer", "42");
  EXPECT_EQ(two->get("answer", seconds(60)), "42");
  EXPECT_EQ(one->add("ranks", 1), 1);
  EXPECT_EQ(two->add("ranks", 1), 2);
  EXPECT_EQ(two->compare_set("answer", "42", "43"), "43");
  EXPECT_EQ(one->compare_set("answer", "42", "44"), "43");
  EXPECT_TRUE(one->remove("answer"));
  EXPECT_FALSE(two->remove("answer"));
}

TEST_F(TorchStore, KeepsItsKeysUnderTheAttempt) {
  const auto first = connect_torch_store(plan_, seconds(60));
  first->set("host", "a");
  // torch's set() does not wait for a reply; a later reply on the same connection shows that the server has the value.
  ASSERT_EQ(first->get("host", seconds(60)), "a");
  EXPECT_TRUE(server_->check({"attempt_0/host"}));
  plan_.prefix = "attempt_1";
  EXPECT_EQ(connect_torch_store(plan_, seconds(60))->try_get("host"), std::nullopt);
}

TEST_F(TorchStore, SaysWhichKeyDidNotComeInTime) {
  const auto store = connect_torch_store(plan_, seconds(60));
  try {
    store->wait({"nobody"}, milliseconds(50));
    FAIL() << "nothing was thrown";
  } catch (const TimeoutError& error) {
    EXPECT_NE(std::string(error.what()).find("nobody"), std::string::npos) << error.what();
  }
}

// In PyTorch 1.13, the store's own wait() leaves its reply in the connection if the key arrives after the timeout.
TEST_F(TorchStore, AWaitThatTimedOutSpoilsNoLaterQuestion) {
  const auto store = connect_torch_store(plan_, seconds(60));
  EXPECT_THROW((void)store->get("late", milliseconds(20)), TimeoutError);
  connect_torch_store(plan_, seconds(60))->set("late", "here");
  EXPECT_EQ(store->get("late", seconds(60)), "here");
  EXPECT_EQ(store->add("ranks", 1), 1);
}
#endif

}  // namespace discovery_test
}  // namespace lockstep::comm
