// SPDX-License-Identifier: Apache-2.0
// The fuzzer's function over its seeds, and over each seed cut short and changed: what scripts/trials/fuzz does at
// length.
#include <gtest/gtest.h>

#include <filesystem>

#include "fuzz/config_targets.h"
#include "lockstep/base/config.h"
#include "lockstep/base/file_system.h"
#include "support/fuzz_seeds.h"

namespace lockstep {
namespace base_fuzz_seeds_test {

namespace fs = std::filesystem;

TEST(BaseFuzzSeeds, AreReadOrRefusedWhateverChanges) {
  test::run_fuzz_seeds("base/fuzz_seeds/yaml", fuzz::yaml, 100);
  test::run_fuzz_seeds("base/fuzz_seeds/json_text", fuzz::json_text, 100);
}

// All others are attacks on the reader of YAML; the numbers are one on whoever takes them.
TEST(BaseFuzzSeeds, TheSettingsAndTheNumbersAreYaml) {
  int right = 0;
  for (const auto& entry : fs::directory_iterator(LOCKSTEP_TEST_SOURCE_DIR "/tests/base/fuzz_seeds/yaml")) {
    right += yaml_problem(FileSystem::system().read(entry.path())).empty() ? 1 : 0;
  }
  EXPECT_EQ(right, 2);
}

}  // namespace base_fuzz_seeds_test
}  // namespace lockstep
