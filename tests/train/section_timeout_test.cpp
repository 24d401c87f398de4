// SPDX-License-Identifier: Apache-2.0
// The settings section_timeout.* reach the flight ring, where the launcher reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "lockstep/flight/snapshot.h"
#include "noisy_task.h"
#include "support/alone.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace section_timeout_test {

using ::lockstep::testing::alone;
using test::noisy_config;
using test::NoisyTask;
using ::testing::Contains;
using ::testing::Pair;

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(SectionTimeout, OfEachSettingStandsInTheRingOfTheRank) {
  const test::TempDir folder;
  const std::filesystem::path ring = folder / "ring";
  ::setenv("LOCKSTEP_FLIGHT", ring.c_str(), 1);  // before the first init()
  NoisyTask task;
  TrainConfig config = noisy_config();
  config.max_steps = 1;
  config.section_timeout = {
      .setup = 101, .data = 102, .forward = 103, .backward = 104, .optimizer = 105, .evaluate = 106, .save = 0};
  Trainer trainer(alone(), task, config, {.recipe = "noisy", .run_dir = folder / "run"});
  (void)trainer.fit();
  std::map<std::string, std::int64_t> limits;
  for (const auto& name : flight::read_ring_file(ring).names) {
    // A name that several files of the program spell stands there several times.
    if (name.limit_ns != 0) limits[name.name] = name.limit_ns;
  }
  EXPECT_THAT(limits, Contains(Pair("setup", 101 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("DataLoader::next", 102 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("forward", 103 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("backward", 104 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("optimizer", 105 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("evaluate", 106 * kSecond)));
  EXPECT_THAT(limits, Contains(Pair("save", ::testing::Lt(0)))) << "0 means any time";
}

}  // namespace section_timeout_test
}  // namespace lockstep
