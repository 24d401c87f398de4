// SPDX-License-Identifier: Apache-2.0
// The guard names the rank that made an error, whatever kind it is, and reports nothing if there is none.
#include "train/step/guard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "lockstep/train/function_task.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"
#include "train/step/ordered_fault.h"

namespace lockstep {
namespace guard_test {

using test::NoisyRun;
using test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using train::guard_roles;
using train::GuardRoles;

TEST(GuardRoles, GiveEveryReplicaAndEveryCheckerATurn) {
  std::set<std::pair<int, int>> seen;
  for (int turn = 0; turn < 24; ++turn) {
    const GuardRoles roles = guard_roles(turn, 4, {"a", "a", "a", "a"});
    EXPECT_EQ(roles.carrier, roles.replica);
    EXPECT_NE(roles.checker, roles.carrier);
    EXPECT_TRUE(roles.third != roles.carrier && roles.third != roles.checker && roles.third >= 0);
    seen.emplace(roles.replica, roles.checker);
  }
  EXPECT_EQ(seen.size(), 12U);
}

TEST(GuardRoles, AskAnotherHostFirst) {
  for (int turn = 0; turn < 24; ++turn) {
    const GuardRoles two = guard_roles(turn, 6, {"a", "a", "b"});
    EXPECT_NE(two.carrier == 2, two.checker == 2) << turn;
    const GuardRoles three = guard_roles(turn, 6, {"a", "a", "b", "c"});
    const std::set<int> hosts = {std::max(1, three.carrier), std::max(1, three.checker), std::max(1, three.third)};
    EXPECT_EQ(hosts.size(), 3U) << turn;
  }
  EXPECT_EQ(guard_roles(0, 2, {"a", "b"}).third, -1);
}

TEST(FaultOrder, IsRead) {
  const train::FaultOrder order = train::parse_fault("flip:gradient:rank=2:step=17:always:bit=9");
  EXPECT_EQ(order.target, "gradient");
  EXPECT_EQ(order.rank, 2);
  EXPECT_EQ(order.step, 17);
  EXPECT_TRUE(order.always);
  EXPECT_EQ(order.bit, 9);
  EXPECT_FALSE(train::parse_fault("flip:batch:rank=0:step=1:once").always);
}

TEST(FaultOrder, OfOtherWordsIsRefused) {
  for (const char* text :
       {"", "flip", "flip:moon:rank=0:step=1", "flip:batch:rank=x:step=1", "flip:batch:rank=0:now=1"}) {
    EXPECT_THAT(test::fault_of<UsageError>([&] { (void)train::parse_fault(text); }), HasSubstr("LOCKSTEP_FAULT is"));
  }
}

NoisyRun guarded() {
  NoisyRun run;
  run.config.guard = 1;
  return run;
}

TEST(Guard, ChangesNoBitAndSaysNothingWhereNothingErrs) {
  const TempDir folder;
  const char* told = std::getenv("LOCKSTEP_TEST_SHARED");
  const std::string shared = told != nullptr ? told : (folder / "run").string();
  testing::run_ranks(testing::current_test(), [&](Job& job) { test::train(job, shared, guarded()); },
                     {.world = 3, .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  test::train(testing::alone(), folder / "alone");
  EXPECT_EQ(test::digest_of(shared), test::digest_of(folder / "alone"));
  const auto log_of = [&](const std::filesystem::path& run) { return FileSystem::system().read(run / "log.jsonl"); };
  EXPECT_THAT(log_of(shared), ::testing::ContainsRegex("\"step\": 10, .*\"proved\": 9\\}"));
  EXPECT_THAT(log_of(folder / "alone"), ::testing::Not(HasSubstr("proved")));
}

struct Flip {
  std::string order;
  int world = 4;
  std::string named;  ///< string in every rank's error
};

class GuardedFlips : public ::testing::TestWithParam<Flip> {};

/// Four replicas and 10 steps; step k guards replica k % 4.
TEST_P(GuardedFlips, AreFoundAndNamed) {
  const TempDir folder;
  const char* told = std::getenv("LOCKSTEP_TEST_SHARED");
  const std::string shared = told != nullptr ? told : (folder / "run").string();
  testing::run_ranks(
      testing::current_test(),
      [&](Job& job) {
        const std::string error = test::fault_of<CorruptionError>([&] { test::train(job, shared, guarded()); });
        EXPECT_THAT(error, HasSubstr(GetParam().named));
      },
      {.world = GetParam().world, .env = {{"LOCKSTEP_TEST_SHARED", shared}, {"LOCKSTEP_FAULT", GetParam().order}}});
}
INSTANTIATE_TEST_SUITE_P(OfAllKinds, GuardedFlips,
                         ::testing::Values(Flip{"flip:gradient:rank=2:step=6:bit=12", 4, "step 6: rank 2 on host"},
                                           Flip{"flip:activation:rank=1:step=5:bit=20", 4, "step 5: rank 1 on host"},
                                           Flip{"flip:batch:rank=3:step=3:bit=22", 4, "step 3: rank 3 on host"},
                                           Flip{"flip:weight:rank=2:step=4:bit=3", 4, "step 4: rank 2 on host"},
                                           Flip{"flip:optimizer:rank=1:step=4:bit=30", 4, "step 4: rank 1 on host"},
                                           Flip{"flip:optimizer:rank=0:step=4:bit=1", 4, "step 4: rank 0 on host"},
                                           Flip{"flip:optimizer:rank=1:step=10:bit=30", 4, "step 10: rank 1 on host"},
                                           Flip{"flip:gradient:rank=1:step=6:bit=12", 2, "step 6: rank 1 on host"},
                                           Flip{"flip:activation:rank=0:step=5:bit=20:always", 4, ": rank 0 on host"}));

TEST(Guard, NamesEveryRankThatDiffers) {
  const TempDir folder;
  const char* told = std::getenv("LOCKSTEP_TEST_SHARED");
  const std::string shared = told != nullptr ? told : (folder / "run").string();
  testing::run_ranks(testing::current_test(),
                     [&](Job& job) {
                       if (job.rank() == 1 || job.rank() == 3) {
                         const auto order = fmt::format("flip:weight:rank={}:step=4:bit={}", job.rank(), job.rank());
                         ::setenv("LOCKSTEP_FAULT", order.c_str(), 1);
                       }
                       NoisyRun run = guarded();
                       run.config.replicas = 5;
                       EXPECT_THAT(test::fault_of<CorruptionError>([&] { test::train(job, shared, run); }),
                                   AllOf(HasSubstr("step 4: rank 1 on host"), HasSubstr(", rank 3 on host"),
                                         HasSubstr("have different weights from the others")));
                       ::unsetenv("LOCKSTEP_FAULT");
                     },
                     {.world = 5, .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
}

TEST(Guard, PutsAsideWhatIsNotProved) {
  const TempDir folder;
  const char* told = std::getenv("LOCKSTEP_TEST_SHARED");
  const std::string shared = told != nullptr ? told : (folder / "run").string();
  testing::run_ranks(
      testing::current_test(),
      [&](Job& job) {
        NoisyRun run = guarded();
        run.config.guard = 4;
        run.config.checkpoint.async = false;  // otherwise step 5's save may be unfinished, and dropped
        EXPECT_THAT(test::fault_of<CorruptionError>([&] { test::train(job, shared, run); }),
                    AllOf(HasSubstr("step 6: rank 1 "), HasSubstr("checkpoints after step 3 are set aside")));
      },
      {.world = 3, .env = {{"LOCKSTEP_TEST_SHARED", shared}, {"LOCKSTEP_FAULT", "flip:weight:rank=1:step=6:bit=3"}}});
  EXPECT_EQ(load_checkpoint(shared).step(), 3);
  EXPECT_TRUE(FileSystem::system().exists(shared + "/checkpoints/step-00000005.suspect"));
}

/// The program keeps its network, so a hook that outlived its guard would be called in the next run.
RANKS_TEST(Guard, OfAnEarlierRunIsGoneWhenTheSameNetworkTrainsAgain, 2) {
  const TempDir folder;
  const auto net = std::make_shared<test::NoisyNet>();
  TaskOptions options{
      .model = [net] { return net; },
      .dataset =
          [](const std::string&) {
            return make_dataset(24, [](std::int64_t i) {
              const double x = 0.1 * static_cast<double>(i);
              return Sample{at::full({2}, x), at::full({1}, x * x)};
            });
          },
      .loss = [](const at::Tensor& output, const Batch& batch) { return at::mse_loss(output, batch.target); }};
  TrainConfig config;
  config.batch_size = 3;
  config.max_steps = 3;
  config.fused_layers = false;
  config.guard = 1;
  config.data.train = "made up";
  for (const char* run : {"first", "second"}) {
    FunctionTask task(options);
    EXPECT_EQ(Trainer(job, task, config, {.recipe = "net", .run_dir = folder / run}).fit().steps, 3);
  }
  net->forward(at::full({4, 2}, 1.0)).sum().backward();
  EXPECT_TRUE(net->named_parameters()["last.bias"].grad().defined());
}

}  // namespace guard_test
}  // namespace lockstep
