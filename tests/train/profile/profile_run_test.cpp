// SPDX-License-Identifier: Apache-2.0
// A profiled run of the Trainer: the same result, and a trace of every rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/file_system.h"
#include "lockstep/view/trace_file.h"
#include "support/alone.h"
#include "support/nested_trace.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace profile_run_test {

using ::lockstep::test::digest_of;
using ::lockstep::test::noisy_config;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::lockstep::testing::current_test;
using ::lockstep::testing::is_nested;
using ::lockstep::testing::run_ranks;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

void train(const Job& job, const std::filesystem::path& run_dir, std::int64_t profile) {
  NoisyTask task;
  TrainConfig config = noisy_config();
  Trainer(job, task, config, {.recipe = "noisy", .run_dir = run_dir, .profile = profile}).fit();
}

std::set<std::string> names_in(const std::string& trace) {
  std::set<std::string> names;
  const auto json = nlohmann::json::parse(trace);
  for (const auto& event : json.at("traceEvents")) names.insert(event.at("name"));
  return names;
}

TEST(ProfiledRun, HasTheDigestOfOneThatIsNot) {
  const TempDir folder;
  train(alone(), folder / "plain", 0);
  train(alone(), folder / "profiled", 4);
  EXPECT_EQ(digest_of(folder / "profiled"), digest_of(folder / "plain"));
}

TEST(ProfiledRun, OnTwoRanksGivesOneTraceOfBoth) {
  const TempDir folder;
  const std::string shared =
      std::getenv("LOCKSTEP_TEST_SHARED") ? std::getenv("LOCKSTEP_TEST_SHARED") : (folder / "run").string();
  run_ranks(current_test(), [&](Job& job) { train(job, shared, 3); },
            {.world = 2, .env = {{"LOCKSTEP_TEST_SHARED", shared}}});
  const view::MergedTrace merged = view::merge_traces(FileSystem::system(), shared);
  EXPECT_EQ(merged.ranks, 2);
  EXPECT_EQ(merged.hosts, 1);
  EXPECT_TRUE(is_nested(nlohmann::json::parse(merged.text).at("traceEvents")));
  EXPECT_THAT(names_in(merged.text),
              IsSupersetOf({"forward", "loss", "backward", "optimizer", "DataLoader::next", "lockstep::prepare_batch",
                            "lockstep::optimizer_step", "first AddmmBackward0"}));
}

}  // namespace profile_run_test
}  // namespace lockstep
