// SPDX-License-Identifier: Apache-2.0
// The fuzzer's functions over its seeds, and over each seed cut short and changed: what scripts/fuzz does at length.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "fuzz/page_targets.h"
#include "lockstep/base/file_system.h"

namespace lockstep {
namespace http_fuzz_seeds_test {

void run(const std::string& kind, void (*target)(std::string_view)) {
  std::mt19937 random(1);
  int seeds = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(LOCKSTEP_TEST_SOURCE_DIR "/tests/http/fuzz_seeds/" + kind)) {
    const std::string seed = FileSystem::system().read(entry.path());
    ++seeds;
    target(seed);
    for (std::size_t size = 0; size < seed.size(); ++size) target(std::string_view(seed).substr(0, size));
    for (int i = 0; i < 1000; ++i) {
      std::string changed = seed;
      for (std::uint32_t n = 1 + random() % 8; n > 0; --n) {
        changed[random() % changed.size()] = static_cast<char>(random());
      }
      target(changed);
    }
  }
  EXPECT_GT(seeds, 1);
}

TEST(HttpFuzzSeeds, AreReadOrRefusedWhateverChanges) {
  run("http_request", fuzz::http_request);
  run("page_words", fuzz::page_words);
}

}  // namespace http_fuzz_seeds_test
}  // namespace lockstep
