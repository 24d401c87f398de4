// SPDX-License-Identifier: Apache-2.0
// The fuzzer's functions over its seeds, and over each seed cut short and changed: what scripts/trials/fuzz does at
// length.
#include <gtest/gtest.h>

#include "fuzz/net_targets.h"
#include "support/fuzz_seeds.h"

namespace lockstep {
namespace comm_fuzz_seeds_test {

TEST(CommFuzzSeeds, AreReadOrRefusedWhateverChanges) {
  test::run_fuzz_seeds("comm/fuzz_seeds/store_frame", fuzz::store_frame);
  test::run_fuzz_seeds("comm/fuzz_seeds/address_file", fuzz::address_file);
  test::run_fuzz_seeds("comm/fuzz_seeds/shown_words", fuzz::shown_words);
}

}  // namespace comm_fuzz_seeds_test
}  // namespace lockstep
