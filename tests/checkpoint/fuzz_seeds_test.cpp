// SPDX-License-Identifier: Apache-2.0
// The fuzzer's functions over its seeds, and over each seed cut short and changed: what scripts/fuzz does at length.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "checkpoint/formats/safetensors_header.h"
#include "checkpoint/torch/pickle_parse.h"
#include "checkpoint/torch/zip_parse.h"
#include "fuzz/checkpoint_targets.h"
#include "lockstep/base/file_system.h"

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

// Each seed as it is, cut at every place, and with 1 to 8 changed bytes 300 times.
void run(const std::string& kind, void (*target)(std::string_view)) {
  std::mt19937 random(1);
  for (const std::string& seed : seeds_of(kind)) {
    target(seed);
    for (std::size_t size = 0; size < seed.size(); ++size) target(std::string_view(seed).substr(0, size));
    for (int i = 0; i < 300; ++i) {
      std::string changed = seed;
      for (std::uint32_t n = 1 + random() % 8; n > 0; --n) {
        changed[random() % changed.size()] = static_cast<char>(random());
      }
      target(changed);
    }
  }
}

TEST(CheckpointFuzzSeeds, AreReadOrRefusedWhateverChanges) {
  run("zip", fuzz::zip);
  run("pickle", fuzz::pickle);
  run("safetensors", fuzz::safetensors);
  run("manifest", fuzz::manifest);
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
