// SPDX-License-Identifier: Apache-2.0
// `lockstep run` on several nodes, which here are several agents on the loopback of one machine.
#include <gmock/gmock.h>

#include <chrono>
#include <memory>

#include "launch/run_fixture.h"
#include "lockstep/base/error.h"
#include "lockstep/store/store.h"

namespace lockstep {
namespace nodes_test {

namespace fs = std::filesystem;
using run_test::kReady;
using run_test::Run;
using test::Process;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TwoNodes : public Run {
 protected:
  // All nodes of a test have one secret.
  test::ProcessOptions command(const std::vector<std::string>& arguments) const {
    auto options = Run::command(arguments);
    options.environment.emplace_back("LOCKSTEP_TOKEN", token_);
    return options;
  }

  std::unique_ptr<Process> node(int rank, const std::string& script, const std::string& processes = "1") const {
    return std::make_unique<Process>(
        command({"--nnodes", "2", "--node-rank", std::to_string(rank), "--master-addr", "127.0.0.1", "--master-port",
                 std::to_string(port_), "--nproc-per-node", processes, "--", "sh", "-c", script}));
  }

  const std::string token_ = make_token();
  const std::uint16_t port_ = [] { return StoreServer({.host = "127.0.0.1", .port = 0, .token = "t"}).port(); }();
};

TEST_F(TwoNodes, AgreeOnTheWorld) {
  const std::string script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $GROUP_RANK $MASTER_ADDR:$MASTER_PORT $LOCKSTEP_STORE";
  auto second = node(1, script, "2");
  auto first = node(0, script);
  const auto of_first = first->wait();
  const auto of_second = second->wait();
  EXPECT_EQ(of_first.code, 0) << of_first.err;
  EXPECT_EQ(of_second.code, 0) << of_second.err;
  const std::string store = " 127.0.0.1:" + std::to_string(port_) + "\n";
  EXPECT_THAT(of_first.out, AllOf(StartsWith("[0]: 0 3 0 0 127.0.0.1:"), EndsWith(store)));
  EXPECT_THAT(of_second.out, AllOf(HasSubstr("[2]: 2 3 1 1 127.0.0.1:"), EndsWith(store)));
  const auto master = of_first.out.substr(13);
  EXPECT_THAT(of_second.out, HasSubstr(master)) << "one master port, which is not the store's";
  EXPECT_THAT(master, Not(HasSubstr(std::to_string(port_) + " 127")));
}

TEST_F(TwoNodes, AFailureOnOneStopsTheOther) {
  auto first = node(0, "sleep 1000");
  auto second = node(1, "exit 9");
  const auto of_second = second->wait();
  const auto of_first = first->wait();
  EXPECT_EQ(of_second.code, 9);
  EXPECT_EQ(of_first.code, 9);
  EXPECT_THAT(of_first.err, HasSubstr("rank 1 on "));
  EXPECT_THAT(of_first.err, HasSubstr("failed first: exit code 9"));
  EXPECT_TRUE(alive().empty());
}

TEST_F(TwoNodes, AFailureReachesANodeWhoseRanksAreDone) {
  auto first = node(0, "until [ -e $DIR/done ]; do sleep 0.01; done; kill -9 $$");
  auto second = node(1, "echo > $DIR/done");
  EXPECT_EQ(first->wait().code, 137);
  const auto of_second = second->wait();
  EXPECT_EQ(of_second.code, 137);
  EXPECT_THAT(of_second.err, HasSubstr("killed by signal 9 (SIGKILL)"));
}

TEST_F(TwoNodes, ANodeWhoseAgentIsKilledIsNamedAtOnce) {
  auto first = node(0, std::string(kReady) + "sleep 1000");
  auto second = node(1, std::string(kReady) + "sleep 1000", "2");
  ASSERT_TRUE(ready(3));
  const auto begin = std::chrono::steady_clock::now();
  second->signal(SIGKILL);
  const auto of_first = first->wait();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(of_first.code, 75);
  EXPECT_THAT(of_first.err, HasSubstr("lockstep: node 1 ("));
  EXPECT_THAT(of_first.err, HasSubstr("ranks 1 to 2) is lost: its launcher was killed, or its machine went down"));
  EXPECT_THAT(of_first.err, Not(HasSubstr("rank 0")));
  EXPECT_LT(passed.count(), 10.0) << "nobody waits for a node that is gone";
  EXPECT_TRUE(all_gone());
}

// Rank 0 of another library notices first, and fails with an exit code of its own.
TEST_F(TwoNodes, ANodeThatIsKilledIsNamedAndNotTheRankThatNoticed) {
  auto first = node(0, std::string(kReady) + "while kill -0 $(cat $DIR/ready-1); do :; done 2> /dev/null; exit 1");
  auto second = node(1, std::string(kReady) + "sleep 1000");
  ASSERT_TRUE(ready(2));
  second->signal(SIGKILL);
  const auto of_first = first->wait();
  EXPECT_EQ(of_first.code, 75);
  EXPECT_THAT(of_first.err, HasSubstr("rank 1) is lost"));
  EXPECT_THAT(of_first.err, Not(HasSubstr("rank 0")));
}

TEST_F(TwoNodes, ANodeThatFreezesIsNamed) {
  const auto slow = [&](int rank) {
    auto options = command({"--nnodes", "2", "--node-rank", std::to_string(rank), "--master-port",
                            std::to_string(port_), "--", "sh", "-c", std::string(kReady) + "sleep 1000"});
    options.environment.emplace_back("LOCKSTEP_TIMEOUT", "4");
    return options;
  };
  Process first(slow(0));
  Process second(slow(1));
  ASSERT_TRUE(ready(2));
  second.signal(SIGSTOP);
  const auto of_first = first.wait();
  EXPECT_EQ(of_first.code, 75);
  EXPECT_THAT(of_first.err, HasSubstr("rank 1) is lost: no word from it for 2.0 s; it is frozen"));
  second.signal(SIGCONT);
  const auto of_second = second.wait();
  EXPECT_EQ(of_second.code, 75);
  EXPECT_THAT(of_second.err, HasSubstr(" is lost: "));
  EXPECT_TRUE(all_gone());
}

TEST_F(TwoNodes, SayForWhomTheyWait) {
  auto options = command({"--nnodes", "3", "--node-rank", "0", "--master-port", std::to_string(port_), "true"});
  options.environment.emplace_back("LOCKSTEP_TIMEOUT", "3.5");
  const auto alone = test::run_process(options);
  EXPECT_EQ(alone.code, 76);
  EXPECT_THAT(alone.err, HasSubstr("note: waiting at 127.0.0.1:" + std::to_string(port_) +
                                   " since 3.0 s for nodes 1, 2 of 3; LOCKSTEP_TIMEOUT ends this after 3.5 s"));
  EXPECT_THAT(alone.err, HasSubstr("nodes 1, 2 of 3 did not join within 3.5 s"));
  options.command[5] = "2";
  const auto other = test::run_process(options);
  EXPECT_EQ(other.code, 76);
  EXPECT_THAT(other.err, HasSubstr("node 2 looks for node 0 at 127.0.0.1, which is this machine"));
  EXPECT_THAT(other.err, HasSubstr("waiting for the job's store at 127.0.0.1:" + std::to_string(port_)));
}

TEST_F(TwoNodes, TheDeathOfNodeZerosAgentEndsTheOther) {
  auto first = node(0, std::string(kReady) + "sleep 1000");
  auto second = node(1, std::string(kReady) + "sleep 1000");
  ASSERT_TRUE(ready(2));
  first->signal(SIGKILL);
  const auto of_second = second->wait();
  EXPECT_EQ(of_second.code, 75);
  EXPECT_THAT(of_second.err, HasSubstr("lockstep: node 0 (127.0.0.1:" + std::to_string(port_) + ") is lost"));
  EXPECT_TRUE(all_gone());
}

TEST_F(TwoNodes, ATokenThatDiffersIsRefused) {
  auto options = command({"--nnodes", "2", "--node-rank", "0", "--master-port", std::to_string(port_), "true"});
  Process first(options);
  options.command[5] = "1";
  options.environment.back().second = make_token();
  const auto result = test::run_process(options);
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, HasSubstr("LOCKSTEP_TOKEN"));
}

TEST_F(TwoNodes, WithoutATokenAreRefusedWithTheCommandsThatHaveOne) {
  auto options = Run::command({"--nnodes=2", "--node_rank", "1", "--rdzv-id", "job-7", "--master-addr", "10.0.0.1",
                               "--", "./train", "two words"});
  options.environment.emplace_back("LOCKSTEP_TOKEN", "");
  const auto result = test::run_process(options);
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err,
              HasSubstr("a run over 2 nodes needs a secret: without one, anybody who reaches 10.0.0.1:29500"));
  EXPECT_THAT(result.err, HasSubstr("lockstep run --new-token job.token\n"));
  for (const std::string node : {"0", "1"}) {
    EXPECT_THAT(result.err, HasSubstr("node " + node + "  lockstep run --node-rank " + node +
                                      " --token-file job.token --nnodes=2 --rdzv-id job-7 --master-addr 10.0.0.1 -- "
                                      "./train 'two words'\n"));
  }
}

TEST_F(TwoNodes, MeetByATokenFile) {
  const auto file = folder_ / "job.token";
  ASSERT_EQ(run({"--new-token", file.string()}).code, 0);
  const auto words = [&](const std::string& rank) {
    auto options = Run::command({"--nnodes", "2", "--node-rank", rank, "--token-file", file.string(), "--master-port",
                                 std::to_string(port_), "sh", "-c", "echo $RANK of $WORLD_SIZE"});
    options.environment.emplace_back("LOCKSTEP_TOKEN", "");
    return options;
  };
  Process second(words("1"));
  const auto of_first = test::run_process(words("0"));
  EXPECT_EQ(of_first.code, 0) << of_first.err;
  EXPECT_EQ(of_first.out, "[0]: 0 of 2\n");
  EXPECT_EQ(second.wait().code, 0);
  fs::permissions(file, fs::perms::others_read, fs::perm_options::add);
  const auto open_to_all = test::run_process(words("0"));
  EXPECT_EQ(open_to_all.code, 64);
  EXPECT_THAT(open_to_all.err, HasSubstr("chmod 600"));
}

// The stranger's way into a job of several nodes was its name, which the list of processes shows.
TEST_F(TwoNodes, AreNotOpenToWhoKnowsTheJobsName) {
  auto options = command({"--nnodes", "2", "--node-rank", "0", "--rdzv-id", "job-7", "--master-port",
                          std::to_string(port_), "sh", "-c", "true"});
  const Process first(options);
  for (const std::string guess : {"job-7", "none", ""}) {
    EXPECT_THROW((void)connect_store({.host = "127.0.0.1", .port = port_, .token = guess}, test::kPatience),
                 UsageError);
  }
}

TEST_F(TwoNodes, AMissingNodeIsATimeoutThatNamesIt) {
  auto options = command({"--nnodes", "2", "--node-rank", "0", "--master-port", std::to_string(port_), "true"});
  options.environment.emplace_back("LOCKSTEP_TIMEOUT", "0.3");
  const auto alone = test::run_process(options);
  EXPECT_EQ(alone.code, 76);
  EXPECT_THAT(alone.err, HasSubstr("node 1 of 2 did not join within 0.3 s"));
}

TEST_F(TwoNodes, OfOneRankAreAnError) {
  const StoreServer server({.host = "127.0.0.1", .port = 0, .token = token_});
  auto options = command({"--nnodes", "3", "--node-rank", "1", "--master-port", std::to_string(server.port()), "true"});
  const Process first(options);
  const auto store = connect_store({.host = "127.0.0.1", .port = server.port(), .token = token_}, test::kPatience);
  (void)store->get("lockstep/agent/identity/1", test::kPatience);
  const auto second = test::run_process(options);
  EXPECT_EQ(second.code, 64);
  EXPECT_THAT(second.err, HasSubstr("two agents have --node-rank 1"));
}

}  // namespace nodes_test
}  // namespace lockstep
