// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry for one target: compiled once for each, with its name.
#include <cstddef>
#include <cstdint>

#include "captioning_targets.h"
#include "checkpoint_targets.h"
#include "config_targets.h"
#include "flight_targets.h"
#include "json_targets.h"
#include "net_targets.h"
#include "page_targets.h"
#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::fuzz::LOCKSTEP_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
