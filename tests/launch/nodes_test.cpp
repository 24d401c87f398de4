// SPDX-License-Identifier: Apache-2.0
// `lockstep run` on several nodes: here, several agents on one machine's loopback.
#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <memory>

#include "launch/run_fixture.h"
#include "lockstep/base/error.h"
#include "lockstep/store/store.h"
#include "support/certificate.h"
#include "support/temp_dir.h"

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
  // All nodes in a test share one secret.
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

TEST_F(TwoNodes, TheOneWithoutRankZeroSaysThatItHasJoined) {
  const auto with_host = [&](int rank, const std::string& host, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--nnodes", "2", "--node-rank", std::to_string(rank), "--master-port",
                             std::to_string(port_), "--nproc-per-node", std::to_string(rank + 1), "--", "true"});
    auto options = command(more);
    options.environment.emplace_back("LOCKSTEP_HOST_ID", host);
    return std::make_unique<Process>(options);
  };
  const std::string line = "note: joined the group of 2 nodes as node 1, with 2 of 3 ranks; rank 0 prints on gpu-a\n";
  auto first = with_host(0, "gpu-a");
  const auto of_second = with_host(1, "gpu-b")->wait();
  EXPECT_THAT(of_second.err, HasSubstr(line));
  EXPECT_THAT(first->wait().err, Not(HasSubstr("joined"))) << "its rank 0 shows that it runs";

  first = with_host(0, "gpu-a", {"--quiet"});
  EXPECT_THAT(with_host(1, "gpu-b", {"--quiet"})->wait().err, Not(HasSubstr("joined")));
  EXPECT_EQ(first->wait().code, 0);
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
  EXPECT_LT(passed.count(), 10.0) << "no node waits for one that is gone";
  EXPECT_TRUE(all_gone());
}

// Rank 0, using another library, notices first and fails with its own exit code.
TEST_F(TwoNodes, ANodeThatIsKilledIsNamedAndNotTheRankThatNoticed) {
  auto first = node(
      0,
      std::string(kReady) +
          "until [ -s $DIR/ready-1 ]; do :; done; while kill -0 $(cat $DIR/ready-1); do :; done 2> /dev/null; exit 1");
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
  EXPECT_THAT(of_first.err, HasSubstr("rank 1) is lost: it reported nothing for 2.0 s; it is frozen"));
  second.signal(SIGCONT);
  const auto of_second = second.wait();
  EXPECT_EQ(of_second.code, 75);
  EXPECT_THAT(of_second.err, HasSubstr(" is lost: "));
  EXPECT_TRUE(all_gone());
}

TEST_F(TwoNodes, OfAJobThatIsSuspendedAndGoesOnNoneIsLost) {
  const auto of_rank = [&](int rank) {
    auto options =
        command({"--nnodes", "2", "--node-rank", std::to_string(rank), "--master-port", std::to_string(port_), "--",
                 "sh", "-c", std::string(kReady) + "until [ -e $DIR/go ]; do sleep 0.1; done"});
    options.environment.emplace_back("LOCKSTEP_TIMEOUT", "4");  // a node is lost after 2 s of silence
    return options;
  };
  Process first(of_rank(0));
  Process second(of_rank(1));
  ASSERT_TRUE(ready(2));
  suspend(std::chrono::seconds(5));
  std::this_thread::sleep_for(std::chrono::seconds(1));  // by now they would have reported a loss
  std::ofstream(folder_.path() / "go") << "";
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  EXPECT_EQ(of_first.code, 0) << of_first.err;
  EXPECT_EQ(of_second.code, 0) << of_second.err;
  EXPECT_TRUE(all_gone());
}

TEST_F(TwoNodes, SayForWhomTheyWait) {
  auto options = command({"--nnodes", "3", "--node-rank", "0", "--master-port", std::to_string(port_), "true"});
  options.environment.emplace_back("LOCKSTEP_TIMEOUT", "3.5");
  const auto alone = test::run_process(options);
  EXPECT_EQ(alone.code, 76);
  EXPECT_THAT(alone.err, HasSubstr("note: waiting at 127.0.0.1:" + std::to_string(port_) +
                                   " for nodes 1, 2 of 3 (3.0 s so far); LOCKSTEP_TIMEOUT ends the wait after 3.5 s"));
  EXPECT_THAT(alone.err, HasSubstr("nodes 1, 2 of 3 did not join within 3.5 s"));
  options.command[5] = "2";
  const auto other = test::run_process(options);
  EXPECT_EQ(other.code, 76);
  EXPECT_THAT(other.err, HasSubstr("node 2 looks for node 0 at 127.0.0.1, which is this machine"));
  EXPECT_THAT(other.err, HasSubstr("waiting for the job's store at 127.0.0.1:" + std::to_string(port_)));
  EXPECT_THAT(other.err, AllOf(HasSubstr("s so far: Connection refused); LOCKSTEP_TIMEOUT ends the wait after 3.5 s"),
                               HasSubstr("within 3.5 s (Connection refused)")));
}

TEST_F(TwoNodes, WithoutANumberFindTheirsAsUnderTorchrun) {
  const std::vector<std::vector<std::string>> ways = {{"--nnodes", "2:2"}, {"--nnodes", "2", "--rdzv-backend", "c10d"}};
  for (std::vector<std::string> words : ways) {
    words.insert(words.end(), {"--rdzv-endpoint", "127.0.0.1:" + std::to_string(port_), "--", "sh", "-c",
                               "echo $GROUP_RANK of $WORLD_SIZE"});
    Process first(command(words));
    Process second(command(words));
    const auto of_first = first.wait();
    const auto of_second = second.wait();
    EXPECT_EQ(of_first.code, 0) << of_first.err;
    EXPECT_EQ(of_second.code, 0) << of_second.err;
    EXPECT_THAT(of_first.out + of_second.out, AllOf(HasSubstr("0 of 2"), HasSubstr("1 of 2")));
  }
}

TEST_F(TwoNodes, WithoutANumberSayHowManyAreMissing) {
  auto options = command({"--nnodes", "2:2", "--rdzv-endpoint", "127.0.0.1:" + std::to_string(port_), "true"});
  options.environment.emplace_back("LOCKSTEP_TIMEOUT", "1");
  EXPECT_THAT(test::run_process(options).err, HasSubstr("1 node more (of 2, 1 is here) did not join within 1.0 s"));
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
              HasSubstr("a run over 2 nodes needs a secret: without one, anybody who can reach 10.0.0.1:29500"));
  EXPECT_THAT(result.err, HasSubstr("lockstep run --new-token job.token\n"));
  EXPECT_THAT(result.err,
              HasSubstr("if you trust everybody on that network, add --trust-network 10.0.0.0/24 on every"));
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

// torchrun's commands, on a network that the user trusts.
TEST_F(TwoNodes, MeetWithoutASecretOnANetworkThatTheUserTrusts) {
  const auto words = [&](const std::string& rank, const std::string& network) {
    auto options = Run::command({"--nproc_per_node=1", "--nnodes=2", "--node_rank=" + rank, "--master_addr=127.0.0.1",
                                 "--master_port=" + std::to_string(port_), "--trust-network", network, "sh", "-c",
                                 "echo $RANK of $WORLD_SIZE"});
    options.environment.emplace_back("LOCKSTEP_TOKEN", "");
    return options;
  };
  Process second(words("1", "127.9.9.9/8"));
  const auto of_first = test::run_process(words("0", "127.0.0.0/8"));
  EXPECT_EQ(of_first.code, 0) << of_first.err;
  EXPECT_EQ(of_first.out, "[0]: 0 of 2\n");
  EXPECT_THAT(of_first.err,
              HasSubstr("warn: this job has no secret: every user of every machine on 127.0.0.0/8 can join it"));
  EXPECT_EQ(second.wait().code, 0);
  auto elsewhere = words("0", "192.168.1.0/24");
  elsewhere.command[5] = "--master_addr=10.0.0.1";
  EXPECT_THAT(test::run_process(elsewhere).err,
              HasSubstr("--trust-network is 192.168.1.0/24, but the nodes meet at 10.0.0.1, which is outside it"));
  elsewhere.environment.back().second = make_token();
  EXPECT_THAT(test::run_process(elsewhere).err, HasSubstr("--trust-network and a secret are both set"));
}

TEST_F(TwoNodes, MeetWithoutASecretOnThisMachineOrOnANetworkThatIsNamed) {
  const auto words = [&](const std::string& rank, const std::string& address, std::vector<std::string> more) {
    std::vector<std::string> typed = {"--nnodes=2", "--node_rank=" + rank, "--master_addr=" + address,
                                      "--master_port=" + std::to_string(port_), "--insecure-no-token"};
    typed.insert(typed.end(), more.begin(), more.end());
    typed.emplace_back("true");
    auto options = Run::command(typed);
    options.environment.emplace_back("LOCKSTEP_TOKEN", "");
    return options;
  };
  Process second(words("1", "localhost", {}));
  const auto of_first = test::run_process(words("0", "127.0.0.1", {"--trust-network", "127.0.0.0/8"}));
  EXPECT_EQ(of_first.code, 0) << of_first.err;
  EXPECT_EQ(second.wait().code, 0);
  const auto open = test::run_process(words("0", "10.0.0.1", {}));
  EXPECT_EQ(open.code, 64);
  EXPECT_THAT(open.err,
              HasSubstr("--insecure-no-token is set, but the nodes meet at 10.0.0.1, which other machines can reach"));
  EXPECT_THAT(open.err, HasSubstr("next  name the network that you trust: --trust-network 10.0.0.0/24"));
}

// A stranger could otherwise join a multi-node job by its name, which the process list shows.
TEST_F(TwoNodes, AreNotOpenToWhoKnowsTheJobsName) {
  auto options = command({"--nnodes", "2", "--node-rank", "0", "--rdzv-id", "job-7", "--master-port",
                          std::to_string(port_), "sh", "-c", "true"});
  const Process first(options);
  for (const std::string guess : {"job-7", "none", ""}) {
    EXPECT_THROW((void)connect_store({.host = "127.0.0.1", .port = port_, .token = guess}, test::kPatience),
                 UsageError);
  }
}

TEST_F(TwoNodes, MeetUnderACertificateAndKeepOutWhoHasNone) {
  const test::TempDir folder;
  const auto files = test::make_certificate(folder.path(), "node-0");
  const auto options = [&](const std::string& rank, const std::vector<std::string>& tls) {
    std::vector<std::string> words = {"--nnodes", "2", "--node-rank", rank, "--master-port", std::to_string(port_)};
    words.insert(words.end(), tls.begin(), tls.end());
    words.insert(words.end(), {"--", "sh", "-c", "echo $LOCKSTEP_TLS_CERT"});
    return command(words);
  };
  Process first(options("0", {"--tls-cert", files.certificate, "--tls-key", files.key}));
  auto without = options("1", {});
  without.environment.emplace_back("LOCKSTEP_TIMEOUT", "1");
  const auto stranger = test::run_process(without);
  EXPECT_EQ(stranger.code, 76);
  const auto second = test::run_process(options("1", {"--tls-cert", files.certificate}));
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr(files.certificate)) << "its ranks read the same file";
  const auto result = first.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no certificate to trust (--tls-ca)"));
}

TEST_F(TwoNodes, AMissingNodeIsATimeoutThatNamesIt) {
  auto options = command({"--nnodes", "2", "--node-rank", "0", "--master-port", std::to_string(port_), "true"});
  options.environment.emplace_back("LOCKSTEP_TIMEOUT", "0.3");
  const auto alone = test::run_process(options);
  EXPECT_EQ(alone.code, 76);
  EXPECT_THAT(alone.err, HasSubstr("node 1 of 2 did not join within 0.3 s"));
}

TEST_F(TwoNodes, OfOneRankAreAnError) {
  const auto three = [&](const std::string& rank) {
    return command({"--nnodes", "3", "--node-rank", rank, "--master-port", std::to_string(port_), "true"});
  };
  const Process server(three("0"));
  const Process first(three("1"));
  const auto store = connect_store({.host = "127.0.0.1", .port = port_, .token = token_}, test::kPatience);
  ASSERT_TRUE(test::eventually([&] { return store->try_get("lockstep/nodes/present") == "node 2 of 3"; }));
  const auto second = test::run_process(three("1"));
  EXPECT_EQ(second.code, 64);
  EXPECT_THAT(second.err, HasSubstr("two agents have --node-rank 1"));
}

TEST_F(TwoNodes, MeetAtAnIpv6Address) {
  try {
    const StoreServer probe({.host = "::1", .port = 0, .token = "t"});
  } catch (const Error& problem) {
    GTEST_SKIP() << "no IPv6 here: " << problem.what();
  }
  const auto words = [&](const std::string& rank) {
    return command({"--nnodes", "2", "--node-rank", rank, "--rdzv-endpoint", "[::1]:" + std::to_string(port_), "--",
                    "sh", "-c", "echo $RANK of $WORLD_SIZE at $LOCKSTEP_STORE"});
  };
  Process second(words("1"));
  const auto of_first = test::run_process(words("0"));
  EXPECT_EQ(of_first.code, 0) << of_first.err;
  EXPECT_EQ(of_first.out, "[0]: 0 of 2 at ::1:" + std::to_string(port_) + "\n");
  EXPECT_EQ(second.wait().code, 0);
}

TEST_F(TwoNodes, StartAgainWithinTheBudget) {
  const std::string script = "echo $RANK attempt $TORCHELASTIC_RESTART_COUNT; exit $((3 * RANK))";
  const auto words = [&](const std::string& rank) {
    return command({"--nnodes", "2", "--node-rank", rank, "--master-port", std::to_string(port_), "--max-restarts", "1",
                    "--", "sh", "-c", script});
  };
  Process first(words("0"));
  Process second(words("1"));
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  EXPECT_EQ(of_first.code, 3);
  EXPECT_EQ(of_second.code, 3);
  EXPECT_THAT(of_second.out, AllOf(HasSubstr("1 attempt 0"), HasSubstr("1 attempt 1"), Not(HasSubstr("attempt 2"))));
  EXPECT_THAT(of_second.err, HasSubstr("rank 1 failed (exit code 3; "));
  EXPECT_THAT(of_second.err, HasSubstr("restart 1 of 1"));
  EXPECT_THAT(of_first.err, HasSubstr("rank 1 on "));
}

// Port 29500 is taken, by this test or by another program.
TEST_F(TwoNodes, ARangeWithoutAPlaceIsAJobOfItsOwnWhereThePortIsTaken) {
  std::unique_ptr<StoreServer> other;
  try {
    other = std::make_unique<StoreServer>(StoreServer::Options{.host = "127.0.0.1", .port = 29500, .token = "t"});
  } catch (const UsageError&) {
  }
  const auto alone = test::run_process(command(
      {"--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=0", "--", "sh", "-c", "echo met at $LOCKSTEP_STORE"}));
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.out, AllOf(HasSubstr("met at 127.0.0.1:"), Not(HasSubstr(":29500"))));
  EXPECT_THAT(alone.err, AllOf(HasSubstr("port 29500 is taken"), HasSubstr("--rdzv-endpoint 127.0.0.1:29500")));
}

// A job in which attempt N waits for the file "go-N", so that the test can see its members.
class SomeNodes : public TwoNodes {
 protected:
  static std::string script() {
    return std::string("n=$TORCHELASTIC_RESTART_COUNT; echo $RANK of $WORLD_SIZE in $n, $LOCKSTEP_MAX_WORLD_SIZE; ") +
           "echo $$ > $DIR/in-$n-$RANK.new; mv $DIR/in-$n-$RANK.new $DIR/in-$n-$RANK; until [ -e $DIR/go-$n ]; do "
           "sleep 0.01; done";
  }

  std::unique_ptr<Process> node(const std::string& host, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"--nnodes", "1:3", "--rdzv-endpoint", "127.0.0.1:" + std::to_string(port_)};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--", "sh", "-c", script()});
    auto options = command(words);
    options.environment.emplace_back("LOCKSTEP_HOST_ID", host);
    options.environment.emplace_back("LOCKSTEP_TIMEOUT", "20");
    return std::make_unique<Process>(options);
  }

  // True if ranks 0 to `count` - 1 run in this attempt.
  bool in_life(int life, int count) const {
    return test::eventually([&] {
      for (int rank = 0; rank < count; ++rank) {
        if (!fs::exists(folder_ / ("in-" + std::to_string(life) + "-" + std::to_string(rank)))) return false;
      }
      return true;
    });
  }

  void end_life(int life) const { std::ofstream(folder_ / ("go-" + std::to_string(life))) << "go"; }

  // True if the first agent serves the store.
  bool serves() const {
    return test::eventually([&] {
      try {
        (void)connect_store({.host = "127.0.0.1", .port = port_, .token = token_}, std::chrono::seconds(1));
        return true;
      } catch (const Error&) {
        return false;
      }
    });
  }
};

TEST_F(SomeNodes, GoOnWithoutOneThatIsKilled) {
  auto a = node("a");
  ASSERT_TRUE(serves());
  auto b = node("b");
  auto c = node("c");
  ASSERT_TRUE(in_life(0, 3));
  b->signal(SIGKILL);
  ASSERT_TRUE(in_life(1, 2));
  end_life(1);
  const auto of_a = a->wait();
  const auto of_c = c->wait();
  EXPECT_EQ(of_a.code, 0) << of_a.err;
  EXPECT_EQ(of_c.code, 0) << of_c.err;
  EXPECT_THAT(of_a.out, HasSubstr("0 of 2 in 1, 3\n"));
  for (const auto& each : {of_a, of_c}) {
    EXPECT_THAT(
        each.err,
        HasSubstr(") is lost: its launcher was killed, or its machine went down: the remaining nodes continue"));
    EXPECT_THAT(each.err, AllOf(HasSubstr("(b, rank "), Not(HasSubstr("(a, ")), Not(HasSubstr("(c, "))));
  }
  EXPECT_TRUE(all_gone());
}

TEST_F(SomeNodes, TakeOneInByChoice) {
  const std::vector<std::string> now = {"--take-in", "now", "--rdzv-conf", "last_call_timeout=0"};
  auto a = node("a", now);
  ASSERT_TRUE(in_life(0, 1));
  auto b = node("b", now);
  ASSERT_TRUE(in_life(1, 2));
  end_life(1);
  const auto of_a = a->wait();
  EXPECT_EQ(of_a.code, 0) << of_a.err;
  EXPECT_EQ(b->wait().code, 0);
  EXPECT_THAT(of_a.out, AllOf(HasSubstr("0 of 1 in 0, 3\n"), HasSubstr("0 of 2 in 1, 3\n")));
  EXPECT_THAT(of_a.err, AllOf(HasSubstr("a node joins"), Not(HasSubstr("failed"))));
  EXPECT_TRUE(all_gone());
}

TEST_F(SomeNodes, WaitForTheStoreThatComesBackOnItsHost) {
  auto a = node("a");
  ASSERT_TRUE(serves());
  auto b = node("b");
  auto c = node("c");
  ASSERT_TRUE(in_life(0, 3));
  a->signal(SIGKILL);
  (void)a->wait();
  auto again = node("a");
  ASSERT_TRUE(in_life(1, 3));
  end_life(1);
  const auto of_a = again->wait();
  const auto of_b = b->wait();
  EXPECT_EQ(of_a.code, 0) << of_a.err;
  EXPECT_EQ(of_b.code, 0) << of_b.err;
  EXPECT_EQ(c->wait().code, 0);
  EXPECT_THAT(of_a.out, HasSubstr("0 of 3 in 1, 3\n"));
  EXPECT_THAT(of_b.err, HasSubstr("node 0 (127.0.0.1:" + std::to_string(port_) + ") is lost"));
  EXPECT_THAT(of_b.err, HasSubstr("waiting for it to come back"));
  EXPECT_TRUE(all_gone());
}

TEST_F(SomeNodes, GoOnWithoutOneThatIsPreempted) {
  auto a = node("a");
  ASSERT_TRUE(serves());
  auto b = node("b");
  auto c = node("c");
  ASSERT_TRUE(in_life(0, 3));
  c->signal(SIGTERM);
  EXPECT_EQ(c->wait().code, 143);
  ASSERT_TRUE(in_life(1, 2));
  end_life(1);
  const auto of_a = a->wait();
  EXPECT_EQ(of_a.code, 0) << of_a.err;
  EXPECT_EQ(b->wait().code, 0);
  EXPECT_THAT(of_a.err, HasSubstr("received SIGTERM"));
}

TEST_F(SomeNodes, AllEndWhereOneIsInterrupted) {
  auto a = node("a");
  ASSERT_TRUE(serves());
  auto b = node("b");
  auto c = node("c");
  ASSERT_TRUE(in_life(0, 3));
  b->signal(SIGINT);
  EXPECT_EQ(b->wait().code, 130);
  EXPECT_EQ(a->wait().code, 130);
  EXPECT_EQ(c->wait().code, 130);
  EXPECT_TRUE(all_gone());
}

}  // namespace nodes_test
}  // namespace lockstep
