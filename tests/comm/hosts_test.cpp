// SPDX-License-Identifier: Apache-2.0
// Several hosts, and the ways to join a job on one and on two.

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#if __has_include(<torch/csrc/distributed/c10d/TCPStore.hpp>)
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

#include "comm/core/failure.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/torch_version.h"
#include "support/carriers.h"
#include "support/run_ranks.h"
#include "support/shell.h"
#include "support/torch_python.h"
#include "support/tree_model.h"

namespace lockstep {
namespace hosts_test {

using testing::current_test;
using ::testing::HasSubstr;
using testing::Output;
using testing::RankProcesses;
using testing::run_ranks;
using testing::run_shell;
using testing::this_program;

// Ranks on different hosts connect on their first message; until then only the hosts' first ranks are connected.

class Distant : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { SKIP_WITHOUT_UCX(GetParam()); }

  /// `hosts`: the number of ranks on each host; by default, ranks 0 and 1 are on one host, 2 and 3 on another.
  static testing::RanksOptions options(const std::string& timeout, const std::vector<int>& hosts = {2, 2}) {
    auto variables = testing::backend_variables(GetParam());
    variables["LOCKSTEP_TIMEOUT"] = timeout;
    return {.world = std::accumulate(hosts.begin(), hosts.end(), 0), .env = variables, .host_sizes = hosts};
  }
};

INSTANTIATE_TEST_SUITE_P(On, Distant, ::testing::Values("shm+tcp", "shm+ucx"), testing::name_of_backend);

/// This process's connected TCP sockets.
std::set<std::string> sockets() {
  std::set<std::string> established;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
      if (fields.size() > 9 && fields[3] == "01") established.insert("socket:[" + fields[9] + "]");
    }
  }
  std::set<std::string> own;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (established.count(target) > 0) own.insert(target);
  }
  return own;
}

int connections() { return static_cast<int>(sockets().size()); }

void count_connections(Job& job) {
  auto& group = job.group();
  auto values = at::full({4}, 1.0 + job.rank());
  std::vector<at::Tensor> parts;
  auto part = at::empty({1});
  const int at_first = connections();
  group.all_reduce(values).wait();
  group.broadcast(values, 3).wait();
  group.all_gather(at::full({4}, 1.0 * job.rank()), parts).wait();
  group.reduce_scatter(values, part).wait();
  group.barrier().wait();
  EXPECT_EQ(connections(), at_first) << "sums, broadcasts and gathers need the hosts' first ranks alone";
  std::vector<at::Tensor> counts;
  group.all_gather(at::full({1}, 1.0 * at_first), counts).wait();
  for (const int first : {0, 2}) {
    EXPECT_EQ(counts[static_cast<std::size_t>(first)].item<float>(),
              counts[static_cast<std::size_t>(first) + 1].item<float>() + 1)
        << "the first rank of a host is connected with that of the other host, and the second with none";
  }
  EXPECT_EQ(values[0].item<float>(), 10.0F);
  EXPECT_EQ(part[0].item<float>(), 40.0F);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(parts[static_cast<std::size_t>(rank)][3].item<float>(), static_cast<float>(rank));
  }

  if (job.rank() == 1) group.send(values, 3).wait();
  if (job.rank() == 3) group.recv(values, 1).wait();
  const bool talks = job.rank() == 1 || job.rank() == 3;
  EXPECT_EQ(connections(), at_first + (talks ? 1 : 0)) << "a message between two ranks connects these two";

  const int before = connections();
  std::set<std::string> connected;
  for (int repeat = 0; repeat < 2; ++repeat) {
    auto all = at::full({4}, 1.0 * job.rank());
    auto turned = at::empty({4});
    group.all_to_all(all, turned).wait();
    EXPECT_EQ(turned[2].item<float>(), 2.0F);
    EXPECT_EQ(connections(), before + 3) << "what each rank has for each other connects them";
    if (repeat == 0) connected = sockets();
    EXPECT_EQ(sockets(), connected) << "once";
  }
  group.barrier().wait();  // no rank leaves while another is counting
}

TEST_P(Distant, RanksConnectWhenTheyHaveSomethingToSayToEachOther) {
  testing::run_ranks(current_test(), count_connections, options("60"));
}

// Each message needs a reply before the next one goes in the same direction.
void talk_both_ways(Job& job) {
  const int peer = job.rank() == 1 ? 3 : 1;
  auto values = at::full({4}, 0.0);
  for (int round = 0; round < 3 && job.rank() % 2 == 1; ++round) {
    if (job.rank() == 1) job.group().send(at::full({4}, round + 1.0), peer).wait();
    job.group().recv(values, peer).wait();
    EXPECT_EQ(values[3].item<float>(), static_cast<float>(round + 1));
    if (job.rank() == 3) job.group().send(values, peer).wait();
  }
  job.group().barrier().wait();
}

TEST_P(Distant, TwoRanksAnswerEachOther) { testing::run_ranks(current_test(), talk_both_ways, options("20")); }

void broadcast_from_each(Job& job) {
  for (int root = 0; root < job.world_size(); ++root) {
    for (const std::int64_t count : {0, 1, 1000, 300'000}) {
      auto values = at::full({count}, job.rank() == root ? root + 0.5 : -1.0);
      auto bucket = job.group().allocate_bucket(count, at::kFloat);
      bucket.copy_(values);
      job.group().broadcast(values, root).wait();
      job.group().broadcast(bucket, root).wait();
      EXPECT_EQ(values.eq(root + 0.5).sum().item<std::int64_t>(), count) << "from rank " << root;
      EXPECT_EQ(bucket.eq(root + 0.5).sum().item<std::int64_t>(), count) << "from rank " << root << ", a bucket";
    }
  }
}

TEST_P(Distant, BroadcastsReachEveryRankFromEveryOther) {
  testing::run_ranks(current_test(), broadcast_from_each, options("60", {1, 3, 2}));
}

// The first of these calls needs a connection that cannot be made: the other host's ranks never ask for one.
void scatter_on_one_host(Job& job) {
  auto values = at::full({4}, 1.0);
  try {
    if (job.rank() >= 2) {
      job.group().all_reduce(values).wait();
    } else {
      job.group().all_to_all(values, at::empty({4})).wait();
    }
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UsageError& problem) {
    EXPECT_THAT(problem.message(), HasSubstr("all_to_all"));
    EXPECT_THAT(problem.message(), HasSubstr("all_reduce"));
  }
}

TEST_P(Distant, ADifferentCallIsNamedBeforeRanksConnect) {
  testing::run_ranks(current_test(), scatter_on_one_host, options("200"));
}

void wait_for_a_message(Job& job) {
  if (job.rank() == 1) {
    auto values = at::full({4}, 1.0);
    job.print_all("it waits for a message");
    job.group().recv(values, 3).wait();
  } else {
    job.store().wait({"never"}, std::chrono::seconds(50));
  }
}

TEST_P(Distant, AMessageThatNeverComesIsATimeoutThatNamesItsSender) {
  RankProcesses ranks(current_test(), wait_for_a_message, options("2"));
  ASSERT_TRUE(ranks.wait_for_log(1, "recv timed out after 2.0 s"));
  EXPECT_TRUE(ranks.wait_for_log(1, "rank 3 on"));
  for (const int rank : {0, 2, 3}) kill(ranks.pid(rank), SIGKILL);
  EXPECT_EQ(ranks.wait()[1].code, 76);
}

void die_instead_of_sending(Job& job) {
  auto values = at::full({4}, 1.0);
  job.barrier();
  if (job.rank() == 3) raise(SIGKILL);
  if (job.rank() == 1) job.group().recv(values, 3).wait();
  job.group().all_reduce(values).wait();
}

TEST_P(Distant, ARankThatDiesBeforeItSendsIsNamedAtOnce) {
  auto by_hand = options("200");
  by_hand.by_hand = true;  // without a launcher, the ranks cannot learn who died
  RankProcesses ranks(current_test(), die_instead_of_sending, by_hand);
  const auto ends = ranks.wait();  // within the deadline, far below the timeout
  EXPECT_EQ(ends[3].code, 128 + SIGKILL);
  for (const int rank : {0, 1, 2}) {
    const auto& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.code, 75) << end.log;
    EXPECT_THAT(end.log, HasSubstr("rank 3 on"));
  }
}

// Rank 3 stays alive, but its launcher says that it died.
void learn_of_a_death(Job& job) {
  job.barrier();
  if (job.rank() == 0) {
    comm::record_first_failure(job.store(), {.kind = FailureKind::kDied, .message = "killed by signal 9", .rank = 3});
  }
  if (job.rank() == 1) {
    auto values = at::full({4}, 1.0);
    try {
      job.group().recv(values, 3).wait();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const PeerError& problem) {
      EXPECT_THAT(problem.message(), HasSubstr("rank 3"));
      EXPECT_THAT(problem.message(), HasSubstr("killed by signal 9"));
    }
    job.store().set("over", "1");
  }
  job.store().wait({"over"}, std::chrono::seconds(50));
}

TEST_P(Distant, WhatTheLauncherSaysOfASenderEndsTheWait) {
  testing::run_ranks(current_test(), learn_of_a_death, options("200"));
}

// The ways to join a job: our store, by hand, torchrun, and two hosts (network namespaces).

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

TEST(Launch, ChoosesTcpWhereRanksShareNoMemory) {
  run_ranks(current_test(),
            [](Job& job) {
              EXPECT_EQ(job.backend(), "tcp");
              EXPECT_THAT(job.backend_reason(), HasSubstr("several hosts"));
              check_sum(job);
            },
            {.world = 2, .host_sizes = {1, 1}});
}

TEST(Launch, TheOldNameOfTcpIsTakenWithOneNote) {
  testing::RankProcesses ranks(current_test(), [](Job& job) { EXPECT_EQ(job.backend(), "tcp"); },
                               {.world = 2, .env = {{"LOCKSTEP_BACKEND", "gloo"}}});
  const auto ends = ranks.wait();
  EXPECT_EQ(ends[0].code, 0) << ends[0].log;
  EXPECT_THAT(ends[0].log, HasSubstr("note: the backend gloo is now called tcp"));
  EXPECT_THAT(ends[1].log, ::testing::Not(HasSubstr("is now called tcp")));
}

TEST(Launch, ARankThatIsStoppedInTheMiddleOfAMessageGoesOn) {
  RankProcesses ranks(current_test(),
                      [](Job& job) {
                        auto values = at::full({16 << 20}, 1.0);
                        std::printf("begins\n");
                        std::fflush(stdout);
                        for (int i = 0; i < 8; ++i) job.group().all_reduce(values, {.op = ReduceOp::kMean}).wait();
                        EXPECT_EQ(values.eq(1).sum().item<std::int64_t>(), values.numel());
                      },
                      {.world = 2, .host_sizes = {1, 1}});
  ASSERT_TRUE(ranks.wait_for_log(1, "begins"));
  for (int stop = 0; stop < 3; ++stop) {
    ::kill(ranks.pid(1), SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::kill(ranks.pid(1), SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  for (const testing::RankEnd& end : ranks.wait()) EXPECT_EQ(end.code, 0) << end.log;
}

TEST(Launch, SaysWhetherTheBytesBetweenHostsAreEncrypted) {
  run_ranks(current_test(), [](Job& job) { EXPECT_THAT(job.backend_reason(), HasSubstr("; plain")); },
            {.world = 2, .env = {{"LOCKSTEP_WIRE", "plain"}}, .host_sizes = {1, 1}});
}

TEST(Launch, WithAnotherWireOnOneRankNamesBoth) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) {
    const std::string wire = env::get("RANK") == "0" ? "--wire=plain" : "--wire=tls";
    const char* argv[] = {"program", wire.c_str()};
    Job job = init(2, argv);
    return check_sum(job);
  }
  const std::string command =
      fmt::format("LOCKSTEP_TEST_BODY={0} {1} --gtest_filter={0}", current_test(), this_program());
  const Output output =
      run_shell(fmt::format("export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={1} LOCKSTEP_TOKEN=wires; "
                            "RANK=0 {0} & RANK=1 {0}; wait $!",
                            command, testing::free_port()));
  EXPECT_THAT(output.text, HasSubstr("rank 0 on"));
  EXPECT_THAT(output.text, HasSubstr("uses the wire plain, but rank 1 on"));
  EXPECT_THAT(output.text, HasSubstr("set the same --wire"));
}

/// Two ranks that know of each other only from the command line.
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
  const std::string python = testing::python_of_this_torch();
  if (python.empty()) GTEST_SKIP() << "no python3 has torch " << LOCKSTEP_TEST_TORCH_VERSION;
  const Output output = run_shell(
      fmt::format("LOCKSTEP_TEST_BODY={0} '{4}' {1} --nproc_per_node 2 --master_port {2} --monitor_interval 0.1 "
                  "--no_python {3} --gtest_filter={0}",
                  current_test(), torchrun.string(), testing::free_port(), this_program(), python));
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_THAT(output.text, HasSubstr("sum is right on rank 0 of 2 over shm"));
  EXPECT_THAT(output.text, HasSubstr("sum is right on rank 1 of 2 over shm"));
}

#if __has_include(<torch/csrc/distributed/c10d/TCPStore.hpp>)
// Plays torchrun's agent, which runs a TCPStore that the ranks find through these variables.
TEST(Launch, ThroughTorchrunsStoreTwoHostsConnectOverTcp) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) run_ranks(current_test(), check_sum, {});
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  tensor::without_libuv(options);
  const auto agent = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const std::string command =
      fmt::format("LOCKSTEP_TEST_BODY={0} {1} --gtest_filter={0}", current_test(), this_program());
  const Output output =
      run_shell(fmt::format("export TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=0 WORLD_SIZE=2 "
                            "MASTER_ADDR=127.0.0.1 MASTER_PORT={1}; RANK=0 LOCKSTEP_HOST_ID=a {0} & first=$!; "
                            "RANK=1 LOCKSTEP_HOST_ID=b {0}; second=$?; wait $first && exit $second",
                            command, agent->getPort()));
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_THAT(output.text, HasSubstr("sum is right on rank 0 of 2 over tcp"));
  EXPECT_THAT(output.text, HasSubstr("sum is right on rank 1 of 2 over tcp"));
}
#endif

TEST(Launch, AcrossNetworkNamespacesChoosesTcp) {
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
  const bool has_ucx = !comm::ucx_version().empty();
  const Output ucx = has_ucx ? run_both("LOCKSTEP_WIRE=ucx") : Output();
  run_shell(remove);
  EXPECT_EQ(apart.code, 0) << apart.text;
  EXPECT_THAT(apart.text, HasSubstr("sum is right on rank 0 of 2 over tcp: the ranks cannot share memory"));
  EXPECT_THAT(apart.text, HasSubstr("sum is right on rank 1 of 2 over tcp"));
  if (has_ucx) {
    EXPECT_EQ(ucx.code, 0) << ucx.text;
    EXPECT_THAT(ucx.text, HasSubstr("sum is right on rank 1 of 2 over ucx: the ranks cannot share memory"));
  }
  // Ranks that only claim to share a host notice it, agree on tcp and say why.
  EXPECT_EQ(claimed.code, 0) << claimed.text;
  EXPECT_THAT(claimed.text, HasSubstr("sum is right on rank 0 of 2 over tcp: shared memory cannot be used"));
  EXPECT_THAT(claimed.text, HasSubstr("tcp connects the ranks of one host"));
}

}  // namespace hosts_test
}  // namespace lockstep

namespace lockstep::comm {
namespace hosts_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::Output;
using ::lockstep::testing::run_shell;
using ::lockstep::testing::this_program;
using ::testing::HasSubstr;

// Two hosts with two ranks each: network namespaces with a slow, high-latency or lossy wire between them.

constexpr std::int64_t kCount = 500'000;  // 2 MB

void reduce(Job& job) {
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < job.world_size(); ++rank) inputs.push_back(random_values(at::kFloat, kCount, rank));
  const at::Tensor expected = model(inputs, ReduceOp::kMean);
  for (int repeat = 0; repeat < 3; ++repeat) {
    const at::Tensor own = inputs[static_cast<std::size_t>(job.rank())].clone();
    job.group().all_reduce(own, {.op = ReduceOp::kMean}).wait();
    ASSERT_TRUE(same_bits(own, expected)) << "on rank " << job.rank();
  }
  job.print_all("the bits are right over {}", job.backend());
}

/// The namespaces of one test, removed at its end.
class TwoHosts {
 public:
  TwoHosts() : id_(std::to_string(getpid())) {
    const Output made = run_shell(
        fmt::format("ip netns add lwa{0} && ip netns add lwb{0} && ip -n lwa{0} tuntap add dev probe mode tun && "
                    "ip netns exec lwa{0} tc qdisc add dev probe root tbf rate 1mbit burst 32kb latency 50ms && "
                    "ip -n lwa{0} link del probe",
                    id_));
    if (made.code != 0) why_not_ = made.text.empty() ? "a tun device cannot be made" : made.text;
  }
  ~TwoHosts() { run_shell(fmt::format("ip netns del lwa{0}; ip netns del lwb{0}", id_)); }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  /// Runs the test's body on four ranks. `link`: options for link.py. `shape`: options for tc on both ends. `more`:
  /// environment variables.
  Output run(const std::string& link, const std::string& shape, const std::string& more) const {
    const std::string tc = shape.empty() ? "true"
                                         : fmt::format(
                                               "ip netns exec lwa{0} tc qdisc add dev wire root {1} && "
                                               "ip netns exec lwb{0} tc qdisc add dev wire root {1}",
                                               id_, shape);
    const std::string rank = fmt::format(
        "env LOCKSTEP_TEST_BODY={0} WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.78.0.1 MASTER_PORT=4322 "
        "LOCKSTEP_TOKEN=two-hosts-of-a-test "
        "LOCKSTEP_TIMEOUT=60 OMP_NUM_THREADS=1 {1} {2} --gtest_filter={0}",
        current_test(), more, this_program());
    // link.py's input is a pipe that closes when the ranks have ended.
    return run_shell(fmt::format(
        "coproc wire {{ /usr/bin/python3 {0}/tests/support/link.py lwa{1} 10.78.0.1 lwb{1} 10.78.0.2 {2}; }}; "
        "read -r state <&${{wire[0]}} && {3} || exit 9; ranks=(); codes=0; "
        "for r in 0 1 2 3; do host=$([ $r -lt 2 ] && echo lwa{1} || echo lwb{1}); "
        "RANK=$r ip netns exec $host {4} & ranks+=($!); done; "
        "for pid in ${{ranks[@]}}; do wait $pid || codes=1; done; "
        "exec {{out}}<&${{wire[0]}}; eval \"exec ${{wire[1]}}>&-\"; read -r carried <&$out; echo carried $carried; "
        "exit $codes",
        LOCKSTEP_TEST_SOURCE_DIR, id_, link, tc, rank));
  }

 private:
  std::string id_;
  std::string why_not_;
};

bool is_rank() { return env::get("LOCKSTEP_TEST_BODY") == current_test(); }

std::int64_t carried(const Output& output) {
  const auto at = output.text.find("carried ");
  return at == std::string::npos ? 0 : std::stoll(output.text.substr(at + 8));
}

TEST(Network, ThatIsLateAndLosesPacketsChangesNoBit) {
  if (is_rank()) testing::run_ranks(current_test(), reduce, {});
  const TwoHosts hosts;
  if (!hosts.why_not().empty()) GTEST_SKIP() << "network namespaces are not permitted here: " << hosts.why_not();
  const Output output = hosts.run("--delay-ms 1 --loss 0.005", "", "");
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_THAT(output.text, HasSubstr("[3]: the bits are right over shm+tcp"));
}

TEST(Network, CarriesEachByteOncePerHostNotOncePerRank) {
  if (is_rank()) testing::run_ranks(current_test(), reduce, {});
  const TwoHosts hosts;
  if (!hosts.why_not().empty()) GTEST_SKIP() << "network namespaces are not permitted here: " << hosts.why_not();
  const std::string narrow = "tbf rate 400mbit burst 256kb latency 200ms";
  const Output together = hosts.run("", narrow, "");
  EXPECT_EQ(together.code, 0) << together.text;
  const Output flat = hosts.run("", narrow, "LOCKSTEP_BACKEND=tcp");
  EXPECT_EQ(flat.code, 0) << flat.text;
  EXPECT_THAT(flat.text, HasSubstr("[3]: the bits are right over tcp"));
  // Three reductions of 2 MB: each host sends and receives 2 MB for each, plus acknowledgements.
  EXPECT_GT(carried(together), 3 * 2 * kCount * 4);
  EXPECT_LT(carried(together), 3 * 2 * kCount * 4 * 1.15);
  EXPECT_GT(carried(flat), 1.8 * static_cast<double>(carried(together)));
}

}  // namespace hosts_test
}  // namespace lockstep::comm
