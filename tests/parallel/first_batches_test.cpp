// SPDX-License-Identifier: Apache-2.0
// In the first step the wrapper compares what the ranks train on.
#include <ATen/core/ivalue.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/first_batch.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace first_batches_test {

using ::testing::HasSubstr;
using ::testing::Not;

/// What rank 0 says in two steps, the first on `indices`.
std::string said(Job& job, const std::vector<std::int64_t>& indices, std::int64_t shards) {
  DistributedDataParallel model{torch::nn::Linear(2, 1), job};
  ::testing::internal::CaptureStderr();
  tensor::note_first_batch({7, 8}, 1);  // an evaluation before training does not count
  tensor::note_first_batch(indices, shards);
  for (int step = 0; step < 2; ++step) model(at::ones({1, 2})).sum().backward();
  return ::testing::internal::GetCapturedStderr();
}

RANKS_TEST(FirstBatches, AreWarnedOfWhereTheLoaderDoesNotKnowTheJob, 2) {
  const std::string text = said(job, {3, 1, 2, 9, 5}, 1);
  if (job.rank() == 0) {
    EXPECT_THAT(text, HasSubstr("all 2 ranks train on the same samples (first batch: 3, 1, 2, 9, ...)"));
    EXPECT_THAT(text, HasSubstr("DataLoader{dataset, job, options}"));
  } else {
    EXPECT_THAT(text, Not(HasSubstr("same samples")));
  }
}

RANKS_TEST(FirstBatches, AreWarnedOfWhereASamplerIgnoresTheShard, 2) {
  const std::string text = said(job, {3, 1}, 2);
  if (job.rank() == 0) {
    EXPECT_THAT(text, HasSubstr("the sampler gives every shard the same samples"));
  }
}

RANKS_TEST(FirstBatches, ThatDifferAreNotTalkedAbout, 2) {
  EXPECT_THAT(said(job, {3, job.rank()}, 2), Not(HasSubstr("same samples")));
}

RANKS_TEST(FirstBatches, ThatNoLoaderMadeAreNotTalkedAbout, 2) {
  EXPECT_THAT(said(job, {}, 1), Not(HasSubstr("first batch: 3")));
}

}  // namespace first_batches_test
}  // namespace lockstep
