// SPDX-License-Identifier: Apache-2.0
// The guard on ranks with fake GPUs, whose gradients are computed on autograd's thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "support/double/ranks.h"
#include "support/fault_of.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace guard_on_gpus_test {

using test::NoisyRun;
using ::testing::HasSubstr;

NoisyRun guarded() {
  NoisyRun run;
  run.config.guard = 1;
  run.config.log_every_steps = 5;
  run.config.checkpoint.every_steps = 10;
  return run;
}

struct Flip {
  std::string order;  ///< order to inject an error; empty for no error
  std::string named;  ///< string in every rank's error
};

class FlipsOnGpus : public ::testing::TestWithParam<Flip> {};

/// Step k guards replica k % 4; the first two guarded steps only check that the GPU's results are reproducible.
TEST_P(FlipsOnGpus, AreFoundAndNamed) {
  const test::TempDir folder;
  const char* told = std::getenv("LOCKSTEP_TEST_SHARED");
  const std::string shared = told != nullptr ? told : (folder / "run").string();
  std::map<std::string, std::string> variables = {{"LOCKSTEP_TEST_SHARED", shared}};
  if (!GetParam().order.empty()) variables["LOCKSTEP_FAULT"] = GetParam().order;
  testing::run_ranks(
      testing::current_test(),
      [&](Job& job) {
        ASSERT_FALSE(job.device().is_cpu());
        if (GetParam().order.empty()) {
          EXPECT_EQ(test::train(job, shared, guarded()).steps, 10);
        } else {
          EXPECT_THAT(test::fault_of<CorruptionError>([&] { test::train(job, shared, guarded()); }),
                      HasSubstr(GetParam().named));
        }
      },
      testing::ranks_on_gpus(4, variables));
}
INSTANTIATE_TEST_SUITE_P(OfAllKinds, FlipsOnGpus,
                         ::testing::Values(Flip{"", ""},
                                           Flip{"flip:gradient:rank=2:step=6:bit=12", "step 6: rank 2 on host"},
                                           Flip{"flip:activation:rank=1:step=5:bit=20", "step 5: rank 1 on host"},
                                           Flip{"flip:batch:rank=3:step=3:bit=22", "step 3: rank 3 on host"},
                                           Flip{"flip:weight:rank=2:step=4:bit=3", "step 4: rank 2 on host"},
                                           Flip{"flip:optimizer:rank=1:step=4:bit=30", "step 5: rank 1 on host"}));

}  // namespace guard_on_gpus_test
}  // namespace lockstep
