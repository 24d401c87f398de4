// SPDX-License-Identifier: Apache-2.0
// Every recipe on a real GPU: it trains there, and its weights mean the same on GPU and CPU.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "apps/gpu_runs.h"

namespace lockstep::test {
namespace {

/// What `lockstep eval` prints as "name   value", one on a line.
std::map<std::string, double> printed_metrics(const std::string& text) {
  std::map<std::string, double> metrics;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    double value = 0;
    std::string more;
    if (line.starts_with(' ') || !(words >> name >> value) || words >> more) continue;
    metrics[name] = value;
  }
  return metrics;
}

struct RecipeCase {
  const char* name;  ///< of the recipe, with its preset
  const char* data;  ///< to evaluate on
  double tolerance;  ///< of each metric: a near tie falls otherwise where sums are rounded otherwise
};

class RecipeOnAGpu : public ::testing::TestWithParam<RecipeCase> {};

TEST_P(RecipeOnAGpu, TrainsThereAndItsWeightsMeanTheSameOnTheCpu) {
  LOCKSTEP_NEEDS_GPU();
  const RecipeCase& one = GetParam();
  const TempDir home;
  const ProcessResult trained = lockstep({"train", one.name, "--run-dir", "run", "--device", "cuda"}, home.path());
  ASSERT_EQ(trained.code, 0) << trained.err << trained.out;
  const std::vector<double> losses = epoch_losses(home / "run");
  ASSERT_GE(losses.size(), 3U) << trained.out;
  EXPECT_LT(losses.back(), losses.front()) << trained.out;
  const std::string recipe = std::string(one.name).substr(0, std::string(one.name).find(':'));
  std::vector<std::map<std::string, double>> found;
  for (const char* device : {"cpu", "cuda"}) {
    const ProcessResult judged =
        lockstep({"eval", recipe, "--checkpoint", "run", "--data", one.data, "--device", device, "--set", "amp=none"},
                 home.path());
    ASSERT_EQ(judged.code, 0) << device << ": " << judged.err;
    found.push_back(printed_metrics(judged.out));
  }
  ASSERT_FALSE(found[0].empty());
  ASSERT_EQ(found[0].size(), found[1].size());
  for (const auto& [name, value] : found[0]) {
    EXPECT_NEAR(found[1][name], value, one.tolerance * std::max(1.0, std::abs(value))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, RecipeOnAGpu,
                         ::testing::Values(RecipeCase{"detection:smoke", "scenes:60:2:few", 0.02},
                                           RecipeCase{"segmentation:smoke", "scenes:24:2:few", 0.005},
                                           RecipeCase{"captioning:smoke", "scenes:60:2", 0.02}),
                         [](const auto& info) {
                           const std::string name = info.param.name;
                           return name.substr(0, name.find(':'));
                         });

}  // namespace
}  // namespace lockstep::test
