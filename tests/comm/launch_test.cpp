// SPDX-License-Identifier: Apache-2.0
// The ways into a job: our store, by hand, torchrun, and two hosts (network namespaces).
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "lockstep/base/env.h"
#include "lockstep/comm/agreement.h"
#include "support/run_ranks.h"
#include "support/shell.h"

namespace lockstep {
namespace launch_test {

using testing::current_test;
using ::testing::HasSubstr;
using testing::Output;
using testing::run_ranks;
using testing::run_shell;
using testing::this_program;

void check_sum(Job& job) {
  at::Tensor tensor = at::full({50'000}, job.rank() + 1.0);
  job.group().all_reduce(tensor).wait();
  EXPECT_EQ(tensor.min().item<double>(), job.world_size() * (job.world_size() + 1) / 2.0);
  job.print_all("sum is right on rank {} of {} over {}: {}", job.rank(), job.world_size(), job.backend(),
                job.backend_reason());
}

TEST(Launch, ByTheLaunchersStoreChoosesShm) {
  run_ranks(current_test(),
            [](Job& job) {
              EXPECT_EQ(job.backend(), "shm");
              EXPECT_THAT(job.backend_reason(), HasSubstr("share the memory"));
              check_sum(job);
            },
            {.world = 2});
}

TEST(Launch, ByHandLetsRankZeroServe) {
  run_ranks(current_test(), check_sum, {.world = 3, .env = {{"LOCKSTEP_TOKEN", "by hand"}}, .by_hand = true});
}

TEST(Launch, BeyondThisMachineNeedsASecret) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) run_ranks(current_test(), check_sum, {});
  const auto start = [](const std::string& more) {
    return run_shell(
        fmt::format("LOCKSTEP_TEST_BODY={0} RANK=0 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 MASTER_PORT=4321 {1} "
                    "{2} --gtest_filter={0}; echo code $?",
                    current_test(), more, this_program()));
  };
  const Output without = start("LOCKSTEP_TOKEN=");
  EXPECT_THAT(without.text, HasSubstr("code 64"));
  EXPECT_THAT(without.text, HasSubstr("the ranks meet at 192.0.2.1:4321, which other machines may reach"));
  const Output weak = start("LOCKSTEP_TOKEN=sesame");
  EXPECT_THAT(weak.text, HasSubstr("code 64"));
  EXPECT_THAT(weak.text, HasSubstr("LOCKSTEP_TOKEN holds 6 characters"));
}

TEST(Launch, ChoosesGlooWhereRanksShareNoMemory) {
  run_ranks(current_test(),
            [](Job& job) {
              EXPECT_EQ(job.backend(), "gloo");
              EXPECT_THAT(job.backend_reason(), HasSubstr("several hosts"));
              check_sum(job);
            },
            {.world = 2, .host_sizes = {1, 1}});
}

/// Two ranks that are told of each other on the command line only.
void join_by_address(const std::string& url, const std::string& first_more) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) {
    const std::string rank = env::get("LOCKSTEP_TEST_RANK").value_or("");
    const char* argv[] = {"program", "--dist-url", url.c_str(), "--rank", rank.c_str(), "--world_size=2"};
    Job job = init(6, argv);
    return check_sum(job);
  }
  const std::string command =
      fmt::format("LOCKSTEP_TEST_BODY={0} {1} --gtest_filter={0}", current_test(), this_program());
  const Output output = run_shell(fmt::format(
      "unset RANK WORLD_SIZE; {1}; (sleep 0.3; LOCKSTEP_TEST_RANK=0 {0}) & LOCKSTEP_TEST_RANK=1 {0}; second=$?; "
      "wait $! && exit $second",
      command, first_more));
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_THAT(output.text, HasSubstr("sum is right on rank 0 of 2 over shm"));
  EXPECT_THAT(output.text, HasSubstr("sum is right on rank 1 of 2 over shm"));
}

TEST(Launch, ByTcpAddressNeedsNoVariables) {
  static const int port = testing::free_port();
  const std::string url = env::get("LOCKSTEP_TEST_URL").value_or(fmt::format("tcp://127.0.0.1:{}", port));
  setenv("LOCKSTEP_TEST_URL", url.c_str(), 1);
  join_by_address(url, "true");
}

TEST(Launch, ByFileWorksThoughAKilledJobLeftItsAddressThere) {
  const std::string file = env::get("LOCKSTEP_TEST_FILE").value_or(fmt::format("/tmp/lockstep-file-{}", getpid()));
  setenv("LOCKSTEP_TEST_FILE", file.c_str(), 1);
  join_by_address("file://" + file + "?host=127.0.0.1", fmt::format("echo 127.0.0.1 9 old > {}", file));
  if (!env::get("LOCKSTEP_TEST_BODY")) {
    EXPECT_FALSE(std::filesystem::exists(file)) << "the file was left behind";
  }
}

TEST(Launch, WithOtherSettingsOnOneRankNamesKeyValuesAndRanks) {
  testing::RankProcesses ranks(
      current_test(),
      [](Job& job) {
        std::map<std::string, std::string> settings = {{"data", "a.csv"}, {"seed", job.rank() == 1 ? "8" : "7"}};
        if (job.rank() == 2) settings["zero"] = "true";
        require_same_settings(job.group(), settings);
      },
      {.world = 3});
  for (const auto& end : ranks.wait()) {
    EXPECT_EQ(end.code, 64) << end.log;
    EXPECT_THAT(end.log, HasSubstr("seed          7 on ranks 0, 2; 8 on rank 1"));
    EXPECT_THAT(end.log, HasSubstr("zero          missing on ranks 0, 1; true on rank 2"));
    EXPECT_THAT(end.log, ::testing::Not(HasSubstr("a.csv")));
  }
}

TEST(Launch, UnderTorchrunJoinsItsStore) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) run_ranks(current_test(), check_sum, {});
  const std::filesystem::path peers =
      env::get("LOCKSTEP_PEERS").value_or(std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/../shared/peers");
  const auto torchrun = peers / "torchrun.py";
  if (!std::filesystem::exists(torchrun)) GTEST_SKIP() << "there is no " << torchrun << " (set LOCKSTEP_PEERS)";
  if (run_shell("/usr/bin/python3 -c 'import torch.distributed.run'").code != 0) {
    GTEST_SKIP() << "python3-torch is not installed";
  }
  const Output output = run_shell(fmt::format(
      "LOCKSTEP_TEST_BODY={0} /usr/bin/python3 {1} --nproc_per_node 2 --master_port {2} --monitor_interval 0.1 "
      "--no_python {3} --gtest_filter={0}",
      current_test(), torchrun.string(), testing::free_port(), this_program()));
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_THAT(output.text, HasSubstr("sum is right on rank 0 of 2 over shm"));
  EXPECT_THAT(output.text, HasSubstr("sum is right on rank 1 of 2 over shm"));
}

TEST(Launch, AcrossNetworkNamespacesChoosesGloo) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) run_ranks(current_test(), check_sum, {});
  const std::string id = std::to_string(getpid());
  const std::string remove = fmt::format("ip netns del lsa{0}; ip netns del lsb{0}", id);
  const Output made = run_shell(fmt::format(
      "set -e; ip netns add lsa{0}; ip netns add lsb{0}; ip link add lva{0} netns lsa{0} type veth peer name lvb{0} "
      "netns "
      "lsb{0}; ip -n lsa{0} addr add 10.77.0.1/24 dev lva{0}; ip -n lsb{0} addr add 10.77.0.2/24 dev lvb{0}; "
      "ip -n lsa{0} link set lva{0} up; ip -n lsb{0} link set lvb{0} up; ip -n lsa{0} link set lo up",
      id));
  if (made.code != 0) {
    run_shell(remove);
    GTEST_SKIP() << "network namespaces are not permitted here: " << made.text;
  }
  const auto run_both = [&](const std::string& more) {
    const std::string common = fmt::format(
        "LOCKSTEP_TEST_BODY={} WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=4321 LOCKSTEP_TIMEOUT=60 "
        "LOCKSTEP_TOKEN=between-the-namespaces OMP_NUM_THREADS=1 {}",
        current_test(), more);
    return run_shell(fmt::format(
        "ip netns exec lsa{0} env {1} RANK=0 {2} --gtest_filter={3} & first=$!; "
        "ip netns exec lsb{0} env {1} RANK=1 {2} --gtest_filter={3}; second=$?; wait $first && exit $second",
        id, common, this_program(), current_test()));
  };
  const Output apart = run_both("");
  const Output claimed = run_both("LOCKSTEP_HOST_ID=one");
  run_shell(remove);
  EXPECT_EQ(apart.code, 0) << apart.text;
  EXPECT_THAT(apart.text, HasSubstr("sum is right on rank 0 of 2 over gloo: the ranks share no memory"));
  EXPECT_THAT(apart.text, HasSubstr("sum is right on rank 1 of 2 over gloo"));
  // Ranks that only claim to share a host find out, agree on gloo and say why.
  EXPECT_EQ(claimed.code, 0) << claimed.text;
  EXPECT_THAT(claimed.text, HasSubstr("sum is right on rank 0 of 2 over gloo: shared memory cannot be used"));
  EXPECT_THAT(claimed.text, HasSubstr("using gloo between the ranks of one host"));
}

}  // namespace launch_test
}  // namespace lockstep
