// SPDX-License-Identifier: Apache-2.0
// Where the seeds of the fuzzer are as files: CMake unpacks fuzz/seeds.tar.xz. Other tests read some of them, too.
#pragma once

#include <filesystem>

namespace lockstep::test {

/// TARGET/NAME, and TARGET/hostile/NAME of what attacked once.
inline std::filesystem::path fuzz_seeds() { return LOCKSTEP_TEST_BIN_DIR "/../tests/fuzz/seeds"; }

}  // namespace lockstep::test
