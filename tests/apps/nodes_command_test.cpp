// SPDX-License-Identifier: Apache-2.0
// `lockstep train` on several machines: here, several launchers on one machine's loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "apps/command.h"
#include "lockstep/base/file_system.h"
#include "lockstep/store/store.h"
#include "support/certificate.h"
#include "support/temp_dir.h"

namespace lockstep::test {
namespace nodes_command_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainOnNodes : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(generate_digits(folder_ / "train", 24, 1).code, 0); }

  // Relative folders: `place` is the machine's working directory. Different host IDs make them two hosts.
  [[nodiscard]] ProcessOptions node(int rank, const std::string& place, const std::vector<std::string>& more) const {
    FileSystem::system().make_folder(folder_ / place);
    auto words = train_words(folder_ / "train", "run");
    words.insert(words.end(), {"--nnodes", "2", "--node-rank", std::to_string(rank), "--master-addr", "127.0.0.1",
                               "--master_port=" + std::to_string(port_)});
    words.insert(words.end(), more.begin(), more.end());
    auto options = lockstep_command(words, folder_ / place);
    options.environment.emplace_back("LOCKSTEP_HOST_ID", "machine-" + place);
    options.environment.emplace_back("LOCKSTEP_TOKEN", token_);
    return options;
  }

  TempDir folder_;
  const std::string token_ = make_token();
  const std::uint16_t port_ = [] { return StoreServer({.host = "127.0.0.1", .port = 0, .token = "t"}).port(); }();
};

TEST_F(TrainOnNodes, IsOneRunWhoseFolderIsRankZeros) {
  Process second(node(1, "b", {"--nproc-per-node", "2"}));
  const ProcessResult of_first = run_process(node(0, "a", {}), kTrainingPatience);
  const ProcessResult of_second = second.wait(kTrainingPatience);
  ASSERT_EQ(of_first.code, 0) << of_first.err;
  ASSERT_EQ(of_second.code, 0) << of_second.err;
  EXPECT_THAT(of_first.out, HasSubstr("4 x 3 replicas = 12"));
  EXPECT_THAT(of_first.err, HasSubstr("training with 1 process on this node"));
  const std::string summary = FileSystem::system().read(folder_ / "a/run/summary.json");
  EXPECT_THAT(summary, HasSubstr("\"world_size\": 3"));
  EXPECT_TRUE(FileSystem::system().exists(folder_ / "a/run/logs/attempt_0/rank-0/stdout.log"));
  EXPECT_TRUE(FileSystem::system().exists(folder_ / "b/run/logs/attempt_0/rank-2/stdout.log"));
  EXPECT_FALSE(FileSystem::system().exists(folder_ / "b/run/checkpoints")) << "rank 0 alone writes the run";
}

// On a shared disk, the folder that rank 0 has just created does not count as an earlier run.
TEST_F(TrainOnNodes, TheSecondMachineMayFindTheFolderThatTheFirstHasBegun) {
  Process first(node(0, "a", {}));
  ASSERT_TRUE(eventually([&] { return FileSystem::system().exists(folder_ / "a/run/.lock"); }));
  FileSystem::system().make_folder(folder_ / "b/run/checkpoints");
  const ProcessResult of_second = run_process(node(1, "b", {}), kTrainingPatience);
  EXPECT_EQ(of_second.code, 0) << of_second.err;
  EXPECT_EQ(first.wait(kTrainingPatience).code, 0);
}

TEST_F(TrainOnNodes, TheirBannerSaysHowTheBytesTravel) {
  Process second(node(1, "b", {"--wire=plain"}));
  const ProcessResult of_first = run_process(node(0, "a", {"--wire", "plain"}), kTrainingPatience);
  EXPECT_EQ(second.wait(kTrainingPatience).code, 0);
  EXPECT_THAT(of_first.out, AllOf(HasSubstr("tcp (the ranks cannot share memory"), HasSubstr("; plain)")))
      << of_first.err;
}

TEST(RunOnNodes, GivesItsWireOnToTheRanks) {
  EXPECT_EQ(lockstep({"run", "--wire", "plain", "--", "printenv", "LOCKSTEP_WIRE"}).out, "[0]: plain\n");
  const ProcessResult wrong = lockstep({"run", "--wire", "plian", "--", "printenv", "LOCKSTEP_WIRE"});
  EXPECT_EQ(wrong.code, 64);
  EXPECT_THAT(wrong.err,
              HasSubstr("--wire is 'plian' (did you mean 'plain'?)\n  next  use one of auto, tls, plain, ucx"));
}

TEST(RunOnNodes, AnIPv6AddressMayHaveBrackets) {
  EXPECT_EQ(lockstep({"run", "--master-addr", "[::1]", "--", "printenv", "MASTER_ADDR"}).out, "[0]: ::1\n");
}

TEST_F(TrainOnNodes, TheirRanksMeetUnderACertificate) {
  const auto files = make_certificate(folder_.path(), "node-0");
  Process second(node(1, "b", {"--tls-ca", files.certificate}));
  const ProcessResult of_first =
      run_process(node(0, "a", {"--tls-cert", files.certificate, "--tls-key", files.key}), kTrainingPatience);
  EXPECT_EQ(of_first.code, 0) << of_first.err;
  EXPECT_EQ(second.wait(kTrainingPatience).code, 0);
  EXPECT_THAT(FileSystem::system().read(folder_ / "a/run/summary.json"), HasSubstr("\"world_size\": 2"));
}

// As with torchrun, a launcher with the same rendezvous address joins the job there.
TEST_F(TrainOnNodes, ASecondLauncherOfARangeJoinsTheFirst) {
  const auto launcher = [&](const std::string& place) {
    FileSystem::system().make_folder(folder_ / place);
    auto words = train_words(folder_ / "train", "run");
    words.insert(words.end(), {"--nnodes", "1:2", "--rdzv-endpoint", "127.0.0.1:" + std::to_string(port_)});
    auto options = lockstep_command(words, folder_ / place);
    options.environment.emplace_back("LOCKSTEP_TOKEN", token_);
    return options;
  };
  Process first(launcher("a"));
  ASSERT_TRUE(eventually([&] {
    try {
      (void)connect_store({.host = "127.0.0.1", .port = port_, .token = token_}, std::chrono::seconds(1));
      return true;
    } catch (const Error&) {
      return false;
    }
  }));
  const ProcessResult of_second = run_process(launcher("b"), kTrainingPatience);
  EXPECT_EQ(of_second.code, 0) << of_second.err;
  EXPECT_THAT(of_second.err, HasSubstr("): joining the job there"));
  EXPECT_EQ(first.wait(kTrainingPatience).code, 0);
  EXPECT_THAT(FileSystem::system().read(folder_ / "a/run/summary.json"), HasSubstr("\"world_size\": 2"));
}

TEST_F(TrainOnNodes, AWrongPlaceIsOneErrorBeforeARankStarts) {
  const ProcessResult rank = lockstep({"train", "captcha:conv3", "--nnodes", "2", "--node-rank", "two"});
  EXPECT_EQ(rank.code, 64);
  EXPECT_THAT(rank.err, HasSubstr("--node-rank is 'two'"));
  for (const char* wrong : {"4:1", "2:", "many", "0"}) {
    const ProcessResult nodes = lockstep({"train", "captcha:conv3", "--nnodes", wrong});
    EXPECT_EQ(nodes.code, 64);
    EXPECT_THAT(nodes.err, HasSubstr("--nnodes is '" + std::string(wrong) + "'"));
  }
  const ProcessResult range = lockstep({"train", "captcha:conv3", "--nnodes", "1:4"});
  EXPECT_EQ(range.code, 64) << "a range needs a secret";
  EXPECT_THAT(range.err, HasSubstr("  lockstep train --token-file job.token captcha:conv3 --nnodes 1:4\n"));
}

TEST_F(TrainOnNodes, ATaskOfAnotherLauncherIsALauncherWhereItIsTold) {
  auto first = node(0, "a", {});
  auto second = node(1, "b", {});
  for (auto* options : {&first, &second}) {
    options->environment.insert(options->environment.end(),
                                {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  }
  Process other(second);
  const ProcessResult result = run_process(first, kTrainingPatience);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(other.wait(kTrainingPatience).code, 0);
}

TEST_F(TrainOnNodes, ASecretIsDemandedBeforeAnythingIsMade) {
  auto options = node(0, "a", {});
  options.environment.back().second = "";
  const ProcessResult result = run_process(options);
  EXPECT_EQ(result.code, 64);
  EXPECT_THAT(result.err, HasSubstr("a run over 2 nodes needs a secret"));
  EXPECT_THAT(result.err, HasSubstr("node 1  lockstep train --node-rank 1 --token-file job.token captcha:conv3"));
  EXPECT_FALSE(FileSystem::system().exists(folder_ / "a/run"));
}

TEST_F(TrainOnNodes, QuietLeavesWarningsAndErrors) {
  auto words = train_words(folder_ / "train", folder_ / "quiet");
  words.insert(words.end(), {"--nproc-per-node", "2", "--quiet"});
  const ProcessResult train = lockstep(words);
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_EQ(train.out, "");
  EXPECT_EQ(train.err, "");
  EXPECT_TRUE(FileSystem::system().exists(folder_ / "quiet/summary.json"));
  words.insert(words.end(), {"--set", "batch_size=-1"});
  EXPECT_THAT(lockstep(words).err, HasSubstr("error: "));
  const ProcessResult run =
      lockstep({"run", "--nproc-per-node", "2", "--quiet", "--", "sh", "-c", "echo $LOCKSTEP_LOG"});
  EXPECT_THAT(run.out, ::testing::AnyOf("[0]: warn\n[1]: warn\n", "[1]: warn\n[0]: warn\n"))
      << "only what the program says";
  EXPECT_EQ(run.err, "");
}

TEST_F(TrainOnNodes, ThatNprocIsTheStartOfAnotherOptionIsSaid) {
  for (const std::string verb : {"train", "run"}) {
    const ProcessResult result = verb == "run" ? lockstep({"run", "--nproc", "2", "true"})
                                               : lockstep({"train", "captcha:conv3", "--nproc", "2"});
    EXPECT_EQ(result.code, 64);
    EXPECT_THAT(result.err, HasSubstr("did you mean '--nproc-per-node'?")) << verb;
  }
}

/// Launchers of an elastic job (--nnodes MIN:MAX) run the command as a program: on a single machine, `lockstep train`
/// would treat each launcher as node 0.
class TrainOnSomeNodes : public TrainOnNodes {
 protected:
  [[nodiscard]] ProcessOptions node(const std::string& place, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"run",
                                      "--nnodes",
                                      "1:2",
                                      "--rdzv-endpoint",
                                      "127.0.0.1:" + std::to_string(port_),
                                      "--rdzv-conf",
                                      "last_call_timeout=" + last_call_,
                                      "--",
                                      lockstep_path()};
    const auto train = train_words(folder_ / "train", folder_ / place / "run");
    words.insert(words.end(), train.begin(), train.end());
    words.insert(words.end(), {"--set", "epochs=100000", "--set", "checkpoint.every_steps=2", "--resume", "auto"});
    words.insert(words.end(), more.begin(), more.end());
    auto options = lockstep_command(words);
    options.environment.emplace_back("LOCKSTEP_HOST_ID", "machine-" + place);
    options.environment.emplace_back("LOCKSTEP_TOKEN", token_);
    return options;
  }

  [[nodiscard]] std::string settings() const { return FileSystem::system().read(folder_ / "a/run/config.yml"); }

  std::string last_call_ = "0";
};

TEST_F(TrainOnSomeNodes, ANodeThatJoinsARunWithoutReplicasHasWork) {
  Process first(node("a", {}));
  ASSERT_TRUE(eventually([&] { return FileSystem::system().exists(folder_ / "a/run/checkpoints"); }));
  Process second(node("b", {}));
  ASSERT_TRUE(first.wait_for_output("the ranks are restarting: 2 nodes, 2 ranks", kTrainingPatience));
  ASSERT_TRUE(first.wait_for_output("resumed from", kTrainingPatience));
  first.signal(SIGTERM);
  const ProcessResult of_first = first.wait(kTrainingPatience);
  const ProcessResult of_second = second.wait(kTrainingPatience);
  EXPECT_EQ(of_first.code, 143);
  EXPECT_EQ(of_second.code, 143);
  EXPECT_THAT(of_first.err, Not(HasSubstr("error:")));
  EXPECT_THAT(settings(), HasSubstr("replicas: 2\n"));
}

TEST_F(TrainOnSomeNodes, ANodeForWhichTheRunHasNoReplicaWaitsAsASpareAndSaysSo) {
  const std::vector<std::string> one = {"--set", "replicas=1"};
  Process first(node("a", one));
  ASSERT_TRUE(eventually([&] { return FileSystem::system().exists(folder_ / "a/run/checkpoints"); }));
  Process second(node("b", one));
  ASSERT_TRUE(second.wait_for_output("the run has 1 replica on 1 rank, and each rank needs one: this node is a spare",
                                     kTrainingPatience));
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(kTrainingPatience).code, 143);
  EXPECT_EQ(second.wait(kTrainingPatience).code, 143);
}

TEST_F(TrainOnSomeNodes, WhereTheRunHasTooFewReplicasFewerOfThemTrain) {
  last_call_ = "60";  // both are present at the start
  const std::vector<std::string> few = {"--set", "replicas=1", "--set", "max_steps=3"};
  Process second(node("b", few));
  const ProcessResult of_first = run_process(node("a", few), kTrainingPatience);
  const ProcessResult of_second = second.wait(kTrainingPatience);
  EXPECT_EQ(of_first.code, 0) << of_first.err;
  EXPECT_EQ(of_second.code, 0) << of_second.err;
  EXPECT_THAT(of_first.err, HasSubstr("the run has 1 replica for 2 ranks: nodes without work wait as spares"));
  EXPECT_THAT(of_first.err + of_second.err, AllOf(HasSubstr("this node is a spare"), Not(HasSubstr("error:"))));
}

TEST_F(TrainOnSomeNodes, ARunThatBeganSmallGrowsByAnOption) {
  auto words = train_words(folder_ / "train", folder_ / "run");
  words.insert(words.end(), {"--set", "epochs=2", "--set", "schedule.type=none"});
  ASSERT_EQ(lockstep(words).code, 0);
  auto wide = words;
  wide.insert(wide.end(), {"--set", "epochs=3", "--nproc-per-node", "2", "--resume", "auto"});
  const ProcessResult refused = lockstep(wide);
  EXPECT_EQ(refused.code, 64);
  EXPECT_THAT(refused.err, HasSubstr("or use one replica per process: --set replicas=2 --allow-other-bits"));
  wide.insert(wide.end(), {"--allow-other-bits", "--set", "replicas=2"});
  const ProcessResult grown = lockstep(wide);
  EXPECT_EQ(grown.code, 0) << grown.err;
  EXPECT_THAT(grown.err, HasSubstr("replicas is 2, but was 1: each batch of 4 samples is divided into 2 parts of 2"));
  EXPECT_THAT(grown.out, HasSubstr("2 x 2 replicas = 4"));
}

}  // namespace nodes_command_test
}  // namespace lockstep::test
