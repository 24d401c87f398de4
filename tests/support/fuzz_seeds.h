// SPDX-License-Identifier: Apache-2.0
// The folder of fuzzer seeds, into which CMake unpacks fuzz/seeds.tar.xz. Other tests also read some of them.
#pragma once

#include <filesystem>

namespace lockstep::test {

/// The folder, which holds TARGET/NAME, and TARGET/hostile/NAME for known attacks.
inline std::filesystem::path fuzz_seeds() { return LOCKSTEP_TEST_BIN_DIR "/../tests/fuzz/seeds"; }

}  // namespace lockstep::test
