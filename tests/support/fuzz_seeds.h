// SPDX-License-Identifier: Apache-2.0
// The folder of the fuzzer's seeds: CMake unpacks fuzz/seeds.tar.xz. Other tests read some of them, too.
#pragma once

#include <filesystem>

namespace lockstep::test {

/// TARGET/NAME, and TARGET/hostile/NAME for former attacks.
inline std::filesystem::path fuzz_seeds() { return LOCKSTEP_TEST_BIN_DIR "/../tests/fuzz/seeds"; }

}  // namespace lockstep::test
