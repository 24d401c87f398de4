// SPDX-License-Identifier: Apache-2.0
// A liblockstep-cuda.so for tests; its parts are a single word.
//   LOCKSTEP_STAND_IN_IS_OLD   it is from another version
#include <string_view>

#include "lockstep/base/version.h"

#ifdef LOCKSTEP_STAND_IN_IS_OLD
constexpr std::string_view kOwn = "0.0.1";
#else
constexpr std::string_view kOwn = lockstep::kVersion;
#endif

extern "C" __attribute__((visibility("default"))) const void* lockstep_cuda_parts(const char* version) {
  return version == kOwn ? "a word" : nullptr;
}
