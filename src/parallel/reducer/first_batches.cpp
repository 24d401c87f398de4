// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/first_batches.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/log.h"
#include "lockstep/tensor/first_batch.h"

namespace lockstep::parallel {
namespace {

bool all_equal(const std::vector<at::Tensor>& digests) {
  return std::all_of(digests.begin(), digests.end(), [&](const at::Tensor& each) {
    const auto* mine = each.data_ptr<std::int64_t>();
    const auto* first = digests.front().data_ptr<std::int64_t>();
    return mine[1] == 1 && mine[0] == first[0];
  });
}

}  // namespace

void warn_of_equal_batches(ProcessGroup& group) {
  const auto batch = tensor::take_first_batch();
  if (group.world_size() == 1) return;
  const at::Tensor mine = at::zeros({2}, at::kLong);
  if (batch) {
    mine.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(batch->digest);
    mine.data_ptr<std::int64_t>()[1] = 1;
  }
  std::vector<at::Tensor> digests;
  group.all_gather(mine, digests).wait();
  if (group.rank() != 0 || !batch || !all_equal(digests)) return;
  const char* cause = batch->shards == 1
                          ? "the DataLoader does not know the job: DataLoader{dataset, job, options}"
                          : "the sampler gives every shard the same samples, or each rank was given the same shard";
  log::warn("all {} ranks train on the same samples (first batch: {}, ...): {}", group.world_size(),
            fmt::join(batch->indices, ", "), cause);
}

}  // namespace lockstep::parallel
