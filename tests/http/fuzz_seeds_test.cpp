// SPDX-License-Identifier: Apache-2.0
// The fuzzer's functions over its seeds, and over each seed cut short and changed: what scripts/trials/fuzz does at
// length.
#include <gtest/gtest.h>

#include "fuzz/page_targets.h"
#include "support/fuzz_seeds.h"

namespace lockstep {
namespace http_fuzz_seeds_test {

TEST(HttpFuzzSeeds, AreReadOrRefusedWhateverChanges) {
  test::run_fuzz_seeds("http/fuzz_seeds/http_request", fuzz::http_request);
  test::run_fuzz_seeds("http/fuzz_seeds/page_words", fuzz::page_words);
}

}  // namespace http_fuzz_seeds_test
}  // namespace lockstep
