// SPDX-License-Identifier: Apache-2.0
// The fuzzer's functions over its seeds, and over each seed cut short and changed: what scripts/trials/fuzz does at
// length.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/formats/safetensors_header.h"
#include "checkpoint/torch/pickle_parse.h"
#include "checkpoint/torch/zip_parse.h"
#include "fuzz/checkpoint_targets.h"
#include "lockstep/base/file_system.h"
#include "support/fuzz_seeds.h"

namespace lockstep {
namespace fuzz_seeds_test {

namespace fs = std::filesystem;

std::vector<std::string> seeds_of(const std::string& kind) {
  std::vector<std::string> seeds;
  for (const auto& entry : fs::directory_iterator(LOCKSTEP_TEST_SOURCE_DIR "/tests/checkpoint/fuzz_seeds/" + kind)) {
    seeds.push_back(FileSystem::system().read(entry.path()));
  }
  EXPECT_FALSE(seeds.empty());
  return seeds;
}

TEST(CheckpointFuzzSeeds, AreReadOrRefusedWhateverChanges) {
  test::run_fuzz_seeds("checkpoint/fuzz_seeds/zip", fuzz::zip, 300);
  test::run_fuzz_seeds("checkpoint/fuzz_seeds/pickle", fuzz::pickle, 300);
  test::run_fuzz_seeds("checkpoint/fuzz_seeds/safetensors", fuzz::safetensors, 300);
  test::run_fuzz_seeds("checkpoint/fuzz_seeds/manifest", fuzz::manifest, 300);
}

// Otherwise the fuzzer would never get past the first check.
TEST(CheckpointFuzzSeeds, AreRight) {
  for (const std::string& seed : seeds_of("zip")) EXPECT_TRUE(checkpoint::parse_zip(seed).ok());
  int refused = 0;
  for (const std::string& seed : seeds_of("pickle")) refused += checkpoint::parse_pickle(seed).ok() ? 0 : 1;
  EXPECT_EQ(refused, 2);  // attack.pkl, latin_key.pkl
  for (const std::string& seed : seeds_of("safetensors")) EXPECT_TRUE(checkpoint::parse_safetensors_header(seed).ok());
}

}  // namespace fuzz_seeds_test
}  // namespace lockstep
