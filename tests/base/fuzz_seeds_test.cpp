// SPDX-License-Identifier: Apache-2.0
// The fuzzer's function over its seeds, and over each seed cut short and changed: what scripts/fuzz does at length.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "fuzz/config_targets.h"
#include "lockstep/base/config.h"
#include "lockstep/base/file_system.h"

namespace lockstep {
namespace base_fuzz_seeds_test {

namespace fs = std::filesystem;

std::vector<std::string> seeds(const std::string& kind = "yaml") {
  std::vector<std::string> texts;
  for (const auto& entry : fs::directory_iterator(LOCKSTEP_TEST_SOURCE_DIR "/tests/base/fuzz_seeds/" + kind)) {
    texts.push_back(FileSystem::system().read(entry.path()));
  }
  return texts;
}

void try_all(const std::vector<std::string>& all, void (*target)(std::string_view)) {
  std::mt19937 random(1);
  for (const std::string& seed : all) {
    target(seed);
    for (std::size_t size = 0; size < seed.size(); ++size) target(std::string_view(seed).substr(0, size));
    for (int i = 0; i < 100; ++i) {
      std::string changed = seed;
      for (std::uint32_t n = 1 + random() % 4; n > 0; --n) {
        changed[random() % changed.size()] = static_cast<char>(random());
      }
      target(changed);
    }
  }
}

TEST(BaseFuzzSeeds, AreReadOrRefusedWhateverChanges) {
  try_all(seeds(), fuzz::yaml);
  try_all(seeds("json_text"), fuzz::json_text);
}

// All others are attacks on the reader of YAML; the numbers are one on whoever takes them.
TEST(BaseFuzzSeeds, TheSettingsAndTheNumbersAreYaml) {
  int right = 0;
  for (const std::string& seed : seeds()) right += yaml_problem(seed).empty() ? 1 : 0;
  EXPECT_EQ(right, 2);
}

}  // namespace base_fuzz_seeds_test
}  // namespace lockstep
