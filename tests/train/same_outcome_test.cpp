// SPDX-License-Identifier: Apache-2.0
// Work that rank 0 does on behalf of all ranks.
#include "train/ranks/same_outcome.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/store/store.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace same_outcome_test {

RANKS_TEST(DoOnMain, LeavesNothingInTheStoreHoweverOftenItIsCalled, 3) {
  constexpr int kCalls = 1000;
  int done = 0;
  for (int call = 0; call < kCalls; ++call) train::do_on_main(job, [&] { ++done; });
  EXPECT_EQ(done, job.is_main() ? kCalls : 0);
  job.barrier();
  int left = 0;
  for (int call = 1; call <= kCalls; ++call) {
    const std::string key = fmt::format("lockstep/outcome/{}", call);
    for (const std::string& each : {key, key + "/read"}) left += job.store().try_get(each).has_value() ? 1 : 0;
  }
  EXPECT_EQ(left, 0);
}

RANKS_TEST(DoOnMain, ThrowsTheErrorOfRankZeroOnEveryRank, 3) {
  EXPECT_THROW(train::do_on_main(job, [] { throw DataError("torn"); }), DataError);
}

}  // namespace same_outcome_test
}  // namespace lockstep
