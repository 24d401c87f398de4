// SPDX-License-Identifier: Apache-2.0
// A run's digests.bin: its contents do not depend on interruptions or on the number of ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <set>

#include "lockstep/view/digest_chain.h"
#include "optim/digest.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace digests_test {

using test::NoisyRun;
using test::TempDir;
using view::DigestChain;

std::string chain_of(const std::filesystem::path& run) { return FileSystem::system().read(run / view::kDigestFile); }

/// The digest of NoisyNet's parameters in a checkpoint, excluding buffers.
std::uint64_t weights_in(const std::filesystem::path& run, std::int64_t step) {
  const auto folder = run / "checkpoints" / fmt::format("step-{:08}", step);
  const StateDict model = load_checkpoint(folder.string()).state("model");
  std::uint64_t sum = 0;
  for (const char* layer : {"first", "norm", "last"}) {
    for (const char* kind : {"weight", "bias"}) {
      const std::string name = fmt::format("{}.{}", layer, kind);
      const at::Tensor found = std::get<at::Tensor>(model.at(name));
      sum += static_cast<std::uint64_t>(
          optim::digest_by_operators(found, 0, optim::digest_seed(name)).item<std::int64_t>());
    }
  }
  return sum;
}

TEST(Digests, AreThoseOfTheSavedWeightsAndOfTheLoggedLosses) {
  const TempDir folder;
  test::train(testing::alone(), folder / "run");
  const DigestChain chain = DigestChain::load(folder / "run");
  ASSERT_EQ(chain.records().size(), 10U);
  const std::string log = FileSystem::system().read(folder / "run/log.jsonl");
  std::set<std::uint64_t> gradients;
  for (const view::DigestRecord& record : chain.records()) {
    EXPECT_EQ(record.weights, weights_in(folder / "run", record.step)) << record.step;
    EXPECT_THAT(log, ::testing::HasSubstr(fmt::format("\"step\": {}, \"epoch\": {}, \"loss\": {}", record.step,
                                                      (record.step + 2) / 3, std::bit_cast<double>(record.loss))));
    gradients.insert(record.gradients);
  }
  EXPECT_EQ(gradients.size(), 10U);
}

struct World {
  int ranks;
  bool zero;
};

class DigestWorlds : public ::testing::TestWithParam<World> {};

/// The tests' folder is the same on every rank: the test process created it.
TEST_P(DigestWorlds, HaveOneChain) {
  const TempDir folder;
  const char* told = std::getenv("LOCKSTEP_TEST_SHARED");
  const std::string shared = told != nullptr ? told : (folder / "run").string();
  testing::run_ranks(testing::current_test(),
                     [&](Job& job) {
                       NoisyRun run;
                       run.config.optimizer.zero = GetParam().zero;
                       test::train(job, shared, run);
                     },
                     {.world = GetParam().ranks, .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  test::train(testing::alone(), folder / "alone");
  EXPECT_EQ(chain_of(shared), chain_of(folder / "alone"));
}
INSTANTIATE_TEST_SUITE_P(WithZeroAndWithout, DigestWorlds,
                         ::testing::Values(World{2, false}, World{4, false}, World{1, true}, World{2, true},
                                           World{3, true}));

TEST(Digests, OfAResumedRunAreThoseOfARunThatWasNeverStopped) {
  const TempDir folder;
  test::train(testing::alone(), folder / "whole");
  std::filesystem::copy(folder / "whole", folder / "resumed", std::filesystem::copy_options::recursive);
  for (const int step : {7, 8, 9, 10}) {
    std::filesystem::remove_all(folder / "resumed/checkpoints" / fmt::format("step-{:08}", step));
  }
  // The file as after a kill: steps after the checkpoint, and part of a record.
  const std::string torn = chain_of(folder / "whole").substr(0, 9 * 32 + 7);
  write_file_atomically(FileSystem::system(), folder / "resumed/digests.bin", torn);
  NoisyRun second;
  second.resume = "auto";
  test::train(testing::alone(), folder / "resumed", second);
  EXPECT_EQ(chain_of(folder / "resumed"), chain_of(folder / "whole"));
}

TEST(Digests, OfACheckpointThatGoesOnElsewhereEndInTheSameFold) {
  const TempDir folder;
  test::train(testing::alone(), folder / "whole");
  NoisyRun run;
  run.resume = (folder / "whole/checkpoints/step-00000006").string();
  test::train(testing::alone(), folder / "other", run);
  const DigestChain other = DigestChain::load(folder / "other");
  EXPECT_EQ(other.begin().step, 6);
  EXPECT_EQ(other.fold_up_to(10), DigestChain::load(folder / "whole").fold_up_to(10));
  const auto manifest = load_checkpoint((folder / "other").string()).manifest();
  EXPECT_EQ(view::fold_of(manifest.meta.digest_fold), other.fold_up_to(10));
}

TEST(Digests, OfAStepThatIsLeftOutHaveNoGradients) {
  const TempDir folder;
  NoisyRun run;
  run.config.grad_scaler = {.enabled = "true", .init_scale = 3e38};
  run.config.clip_norm = 0;
  test::train(testing::alone(), folder / "run", run);
  const std::vector<view::DigestRecord> records = DigestChain::load(folder / "run").records();
  EXPECT_EQ(records.at(0).gradients, 0U);
  EXPECT_NE(records.at(9).gradients, 0U);
  for (const view::DigestRecord& record : records) {
    EXPECT_EQ(record.weights, weights_in(folder / "run", record.step)) << record.step;
  }
}

TEST(Digests, AreNotWrittenWhereTheyAreTurnedOff) {
  const TempDir folder;
  NoisyRun run;
  run.config.digests = "false";
  test::train(testing::alone(), folder / "off", run);
  test::train(testing::alone(), folder / "on");
  EXPECT_FALSE(FileSystem::system().exists(folder / "off/digests.bin"));
  EXPECT_EQ(test::digest_of(folder / "off"), test::digest_of(folder / "on"));
}

}  // namespace digests_test
}  // namespace lockstep
