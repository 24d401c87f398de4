// SPDX-License-Identifier: Apache-2.0
// Collectives of tensors that need care: inputs that the call itself replaces.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <vector>

#include "lockstep/comm/process_group.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace unusual_tensors_test {

/// Expects rank r's values, all r + 1, in out[r].
void expect_values_of_ranks(const Job& job, const std::vector<at::Tensor>& out) {
  ASSERT_EQ(out.size(), static_cast<std::size_t>(job.world_size()));
  for (int rank = 0; rank < job.world_size(); ++rank) {
    const at::Tensor& part = out[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(at::equal(part, at::full({1000}, rank + 1.0))) << "of rank " << rank;
  }
}

RANKS_TEST(AllGather, TakesAnInputThatIsInItsOutput, 2) {
  std::vector<at::Tensor> out;
  job.group().all_gather(at::full({1000}, job.rank() + 1.0), out).wait();
  for (int round = 0; round < 3; ++round) {
    job.group().all_gather(out[static_cast<std::size_t>(job.rank())], out).wait();
    expect_values_of_ranks(job, out);
  }
}

RANKS_TEST(Gather, TakesAnInputThatIsInItsOutput, 2) {
  for (const int root : {0, 1}) {
    std::vector<at::Tensor> out;
    job.group().all_gather(at::full({1000}, job.rank() + 1.0), out).wait();
    job.group().gather(out[static_cast<std::size_t>(job.rank())], out, root).wait();
    if (job.rank() == root) {
      expect_values_of_ranks(job, out);
    } else {
      EXPECT_TRUE(out.empty());
    }
  }
}

}  // namespace unusual_tensors_test
}  // namespace lockstep
