// SPDX-License-Identifier: Apache-2.0
// Collectives of tensors that need care: inputs that the call itself replaces, and results in inference mode.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <thread>
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

// A result is written back to a strided tensor by the communication thread or by the thread that waits.

RANKS_TEST(InferenceMode, LetsTheCommunicationThreadWriteAStridedResult, 2) {
  const c10::InferenceMode mode;
  for (int round = 0; round < 200; ++round) {
    const at::Tensor values = at::ones({8, 4}).t();
    Work work = job.group().all_reduce(values);
    while (!work.is_done()) std::this_thread::yield();
    work.wait();
    ASSERT_TRUE(at::equal(values, at::full({4, 8}, 2.0))) << "in round " << round;
  }
}

RANKS_TEST(InferenceMode, NeedNotLastUntilAStridedResultIsWritten, 2) {
  at::Tensor values;
  Work work;
  {
    const c10::InferenceMode mode;
    values = at::ones({8, 4}).t();
    work = job.group().all_reduce(values);
  }
  work.wait();
  EXPECT_TRUE(at::equal(values, at::full({4, 8}, 2.0)));
}

RANKS_TEST(InferenceMode, LetsAStridedResultBeWrittenIntoAnOrdinaryTensor, 2) {
  const at::Tensor values = at::ones({8, 4}).t();
  const c10::InferenceMode mode;
  for (int round = 0; round < 3; ++round) job.group().all_reduce(values).wait();
  EXPECT_TRUE(at::equal(values, at::full({4, 8}, 8.0)));
}

}  // namespace unusual_tensors_test
}  // namespace lockstep
