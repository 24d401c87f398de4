// SPDX-License-Identifier: Apache-2.0
// Programs that reach the same store: one after the other in the script of each rank, and steps of Slurm with one port.
#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <future>
#include <map>
#include <thread>

#include "comm/wiring/program_store.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/standby.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/store/store.h"
#include "support/run_ranks.h"
#include "support/shell.h"

namespace lockstep {
namespace programs_test {

using testing::current_test;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Output;
using testing::run_shell;

RankInfo rank_of_two(int rank) { return {.rank = rank, .world_size = 2}; }

TEST(ProgramsOfAScript, DoNotReadEachOthersKeys) {
  const std::shared_ptr<Store> agent = make_local_store();
  auto first = agent;
  EXPECT_EQ(comm::begin_program(first, rank_of_two(0)), 1);
  first->set("lockstep/comm/0/hello/0", "first");
  EXPECT_EQ(agent->try_get("lockstep/comm/0/hello/0"), "first") << "a single program's keys stay as they were";
  auto second = agent;
  EXPECT_EQ(comm::begin_program(second, rank_of_two(0)), 2);
  EXPECT_EQ(second->try_get("lockstep/comm/0/hello/0"), std::nullopt);
  second->set("lockstep/comm/0/hello/0", "second");
  EXPECT_EQ(first->try_get("lockstep/comm/0/hello/0"), "first");
  auto peer = agent;
  EXPECT_EQ(comm::begin_program(peer, rank_of_two(1)), 1) << "each rank counts its own programs";
  peer = agent;
  EXPECT_EQ(comm::begin_program(peer, rank_of_two(1)), 2);
  EXPECT_EQ(peer->try_get("lockstep/comm/0/hello/0"), "second");
}

TEST(ProgramsOfAScript, ShareTheKeysThatTheirLauncherReads) {
  const std::shared_ptr<Store> agent = make_local_store();
  auto store = agent;
  (void)comm::begin_program(store, rank_of_two(0));
  store = agent;
  (void)comm::begin_program(store, rank_of_two(0));
  for (const std::string& key : {std::string(kFirstFailureKey), std::string(kSavesKey),
                                 std::string("lockstep/train/replicas"), standby::kKey + std::string("0")}) {
    store->set(key, "1");
    EXPECT_EQ(agent->try_get(key), "1") << key;
  }
}

TEST(ProgramsOfAScript, ForgetOnlyTheFailureOfAnEarlierProgramOfTheSameRank) {
  const std::shared_ptr<Store> agent = make_local_store();
  for (const int rank : {0, 1}) {
    auto store = agent;
    (void)comm::begin_program(store, rank_of_two(rank));
  }
  agent->set(kFirstFailureKey, to_json({.message = "broken image", .rank = 1}));
  auto store = agent;
  (void)comm::begin_program(store, rank_of_two(0));
  EXPECT_TRUE(agent->try_get(kFirstFailureKey).has_value()) << "rank 1 may have failed a moment ago";
  store = agent;
  (void)comm::begin_program(store, rank_of_two(1));
  EXPECT_FALSE(agent->try_get(kFirstFailureKey).has_value());
}

TEST(ProgramsOfAScript, OfAnotherWorldSizeAreCountedSeparately) {
  const std::shared_ptr<Store> agent = make_local_store();
  auto store = agent;
  (void)comm::begin_program(store, rank_of_two(0));
  store = agent;
  EXPECT_EQ(comm::begin_program(store, {.rank = 0, .world_size = 3}), 1);
}

TEST(ProgramsOfRankZero, AreEnteredOnceByEachRankWhichWaitsForTheEndOfTheEarlierOne) {
  auto earlier = std::make_unique<StoreServer>(StoreServer::Options{});
  const StoreServer later(StoreServer::Options{});
  int connections = 0;
  std::future<void> end;
  const auto connect = [&](std::chrono::milliseconds timeout) {
    const std::uint16_t port = ++connections < 3 ? earlier->port() : later.port();
    auto store = connect_store({.port = port}, timeout);
    if (connections == 2) end = std::async(std::launch::async, [&] { earlier.reset(); });
    return store;
  };
  comm::enter_program(connect, 1, "127.0.0.1:1", std::chrono::seconds(60))->set("lockstep/comm/0/hello/all", "[]");
  const auto store = comm::enter_program(connect, 1, "127.0.0.1:1", std::chrono::seconds(60));
  EXPECT_EQ(store->try_get("lockstep/comm/0/hello/all"), std::nullopt);
  EXPECT_EQ(connections, 3);
}

TEST(ProgramsOfRankZero, ThatOutlastTheTimeLimitAreNamed) {
  const std::shared_ptr<Store> store = make_local_store();
  const auto connect = [&](std::chrono::milliseconds /*timeout*/) { return store; };
  const auto enter = [&](int rank) {
    return comm::enter_program(connect, rank, "gpu-a:29500", std::chrono::milliseconds(50));
  };
  EXPECT_EQ(enter(1), store);
  EXPECT_EQ(enter(2), store) << "each rank counts for itself";
  try {
    (void)enter(1);
    ADD_FAILURE() << "the rank joined the program that it had left";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0's earlier program still serves its store at gpu-a:29500"));
  }
}

/// Serves a launcher's store, and runs a script with two ranks under it.
class Script {
 public:
  Script() : server_({.token = token_}) {}

  [[nodiscard]] std::shared_ptr<Store> store() const {
    return connect_store({.port = server_.port(), .token = token_}, std::chrono::seconds(60));
  }

  /// In `script`, $PROGRAM is this test as a rank.
  [[nodiscard]] Output run(const std::string& script, const std::string& timeout) const {
    return run_shell(
        fmt::format("export LOCKSTEP_TEST_BODY={0} PROGRAM='{1} --gtest_filter={0}' WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "
                    "LOCKSTEP_STORE=127.0.0.1:{2} LOCKSTEP_STORE_TOKEN={3} LOCKSTEP_TIMEOUT={4}; "
                    "RANK=0 LOCAL_RANK=0 sh -c '{5}' & first=$!; RANK=1 LOCAL_RANK=1 sh -c '{5}'; second=$?; "
                    "wait $first && exit $second",
                    current_test(), testing::this_program(), server_.port(), token_, timeout, script));
  }

 private:
  const std::string token_ = make_token();
  StoreServer server_;
};

void sum(Job& job) {
  auto tensor = at::full({3}, job.rank() + 1.0);
  job.group().all_reduce(tensor).wait();
  EXPECT_EQ(tensor[0].item<float>(), 3);
  job.print_all(fmt::format("sum over {}", job.backend()));
}

TEST(ProgramsOfAScript, EachFormTheirOwnWorldInSharedMemory) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) testing::run_ranks(current_test(), sum, {});
  const Output output = Script().run("$PROGRAM && $PROGRAM && $PROGRAM && $PROGRAM", "60");
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_THAT(output.text, Not(HasSubstr("over tcp")));
  EXPECT_THAT(output.text, Not(HasSubstr("tcp connects"))) << output.text;
}

TEST(ProgramsOfAScript, ThatOnlyOneRanksScriptRunsAreNamed) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) testing::run_ranks(current_test(), sum, {});
  const Script script;
  (void)script.store()->add("lockstep/programs/2/0", 1);
  const Output output = script.run("$PROGRAM", "1");
  EXPECT_THAT(output.text, HasSubstr("programs      rank 0 has started 2 programs, rank 1 has started 1 program"));
  EXPECT_THAT(output.text, HasSubstr("programs      rank 1 has started 1 program, rank 0 has started 2 programs"));
  EXPECT_THAT(output.text, HasSubstr("make the script of every rank run the same Lockstep programs"));
}

// Rank 0 writes its last checkpoint after the last collective, when the other ranks have left.
void sum_then_save(Job& job) {
  sum(job);
  if (job.is_main()) std::this_thread::sleep_for(std::chrono::seconds(1));
}

TEST(ProgramsOfAScript, WithoutALauncherEachFormTheirOwnWorld) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) testing::run_ranks(current_test(), sum_then_save, {});
  const std::string script = "$PROGRAM && $PROGRAM";
  const Output output = run_shell(
      fmt::format("export LOCKSTEP_TEST_BODY={0} PROGRAM='{1} --gtest_filter={0}' WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "
                  "MASTER_ADDR=127.0.0.1 MASTER_PORT={2} LOCKSTEP_TIMEOUT=60; "
                  "RANK=0 LOCAL_RANK=0 sh -c '{3}' & first=$!; RANK=1 LOCAL_RANK=1 sh -c '{3}'; second=$?; "
                  "wait $first && exit $second",
                  current_test(), testing::this_program(), testing::free_port(), script));
  EXPECT_EQ(output.code, 0) << output.text;
}

/// Serves a store at a port that srun's ranks derive from their job and step.
std::unique_ptr<StoreServer> serve_at_derived_port() {
  const auto first = 20'000 + ::getpid() % 9'000;  // tests run at the same time
  for (auto port = first; port < 29'999; ++port) {
    try {
      return std::make_unique<StoreServer>(StoreServer::Options{.port = static_cast<std::uint16_t>(port)});
    } catch (const UsageError&) {
      continue;  // the port is taken
    }
  }
  return nullptr;
}

TEST(StepsOfSlurm, WithOnePortDoNotMixAndAreNamed) {
  const auto server = serve_at_derived_port();
  ASSERT_NE(server, nullptr);
  const auto store = connect_store({.port = server->port()}, std::chrono::seconds(60));
  store->set("lockstep/job", "slurm-step-1.0/");
  const int job = server->port() - 20'000 + 10'000;
  const std::map<std::string, std::string> step = {{"SLURM_PROCID", "1"},
                                                   {"SLURM_NTASKS", "2"},
                                                   {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                                   {"SLURM_NODEID", "1"},
                                                   {"SLURM_LOCALID", "0"},
                                                   {"SLURM_STEP_ID", "0"},
                                                   {"SLURM_STEP_NODELIST", "127.0.0.1,b"},
                                                   {"SLURM_JOB_ID", std::to_string(job)}};
  for (const auto& [name, value] : step) ::setenv(name.c_str(), value.c_str(), 1);
  try {
    (void)init(0, nullptr, {.timeout = std::chrono::milliseconds(100)});
    ADD_FAILURE() << "a rank joined the step of another job";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("127.0.0.1:{} belongs to slurm-step-1.0, not to slurm-step-{}.0",
                                                    server->port(), job)));
    EXPECT_THAT(error.what(), HasSubstr("its own MASTER_PORT"));
  }
  EXPECT_EQ(store->try_get("lockstep/comm/0/hello/1"), std::nullopt);
  for (const auto& [name, value] : step) ::unsetenv(name.c_str());
}

TEST(StepsOfSlurm, FormAWorldUnderTheirOwnKeys) {
  if (env::get("LOCKSTEP_TEST_BODY") == current_test()) testing::run_ranks(current_test(), sum, {});
  const int job = serve_at_derived_port()->port() - 20'000;
  const Output output = run_shell(fmt::format(
      "export LOCKSTEP_TEST_BODY={0} SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID={2} SLURM_STEP_NODELIST=127.0.0.1; "
      "SLURM_PROCID=0 {1} --gtest_filter={0} & first=$!; SLURM_PROCID=1 {1} --gtest_filter={0}; second=$?; "
      "wait $first && exit $second",
      current_test(), testing::this_program(), job));
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_THAT(output.text, HasSubstr("[1]: sum over shm"));
}

}  // namespace programs_test
}  // namespace lockstep
