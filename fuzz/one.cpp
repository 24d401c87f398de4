// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry for one target: compiled once per target, with its name.
#include <cstddef>
#include <cstdint>

#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::fuzz::LOCKSTEP_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
