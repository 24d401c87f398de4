// SPDX-License-Identifier: Apache-2.0
// A function of the fuzzer over its seeds, and over each seed cut short and changed: what scripts/trials/fuzz does at
// length.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <string_view>

#include "lockstep/base/file_system.h"

namespace lockstep::test {

/// `folder`: of the seeds, below tests/. Each is cut at every place, and has 1 to 8 bytes changed `changes` times.
inline void run_fuzz_seeds(const std::string& folder, void (*target)(std::string_view), int changes = 1000) {
  std::mt19937 random(1);
  int seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_TEST_SOURCE_DIR "/tests/" + folder)) {
    const std::string seed = FileSystem::system().read(entry.path());
    ++seeds;
    target(seed);
    for (std::size_t size = 0; size < seed.size(); ++size) target(std::string_view(seed).substr(0, size));
    for (int i = 0; i < changes; ++i) {
      std::string changed = seed;
      for (std::uint32_t n = 1 + random() % 8; n > 0; --n) {
        changed[random() % changed.size()] = static_cast<char>(random());
      }
      target(changed);
    }
  }
  EXPECT_GT(seeds, 0) << folder;
}

}  // namespace lockstep::test
