// SPDX-License-Identifier: Apache-2.0
// Checks of every tensor collective on several GPUs, real or fake.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <vector>

#include "lockstep/comm/group_check.h"
#include "lockstep/comm/job.h"
#include "support/tree_model.h"

namespace lockstep::comm::device_collectives {

using ::testing::HasSubstr;

inline at::Tensor on_gpu(const Job& job, const at::Tensor& tensor) { return tensor.to(job.device()); }

/// Small whole numbers, whose sums are exact in every dtype and order.
inline at::Tensor numbers(at::ScalarType dtype, std::int64_t count, int rank) {
  return at::arange(count, at::kLong).remainder(5).add(rank + 1).to(dtype);
}

inline at::Tensor reduced(at::ScalarType dtype, std::int64_t count, int world, ReduceOp op) {
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < world; ++rank) inputs.push_back(numbers(dtype, count, rank));
  return model(inputs, op);
}

inline void check_reductions(Job& job) {
  ASSERT_THAT(job.backend(), HasSubstr("nccl"));
  const int world = job.world_size();
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte}) {
    for (const std::int64_t count : {0, 1, 1000, (1 << 18) + 1}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
        const at::Tensor values = on_gpu(job, numbers(dtype, count, job.rank()));
        job.group().all_reduce(values, {.op = op}).wait();
        ASSERT_TRUE(values.cpu().equal(reduced(dtype, count, world, op))) << dtype << " of " << count;
      }
    }
  }
  const at::Tensor mean = on_gpu(job, at::full({1000}, job.rank() + 1.0F));
  job.group().all_reduce(mean, {.op = ReduceOp::kMean}).wait();
  EXPECT_EQ(mean.max().item<float>(), (world + 1) / 2.0F);
  const at::Tensor rooted = on_gpu(job, numbers(at::kInt, 100, job.rank()));
  job.group().reduce(rooted, world - 1).wait();
  if (job.rank() == world - 1) {
    EXPECT_TRUE(rooted.cpu().equal(reduced(at::kInt, 100, world, ReduceOp::kSum)));
  }
}

/// Depending on `count`, the parts are equal or uneven: equal parts use NCCL's own collectives, uneven ones are sent
/// one by one.
inline void check_parts(Job& job, std::int64_t count, at::ScalarType dtype) {
  const int world = job.world_size();
  const ElementRange own = shard_of(count, world, job.rank());
  const at::Tensor values = on_gpu(job, numbers(dtype, count, job.rank()));
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax}) {
    if (op == ReduceOp::kMean && !at::isFloatingType(dtype)) continue;
    const at::Tensor output = at::empty({own.size()}, values.options());
    job.group().reduce_scatter(values, output, {.op = op}).wait();
    ASSERT_TRUE(output.cpu().equal(reduced(dtype, count, world, op).slice(0, own.begin, own.end)))
        << dtype << " of " << count << " by " << static_cast<int>(op);
  }
  const at::Tensor whole = on_gpu(job, numbers(dtype, count, 7)).zero_();
  const at::Tensor place = whole.slice(0, own.begin, own.end);
  place.copy_(numbers(dtype, count, 7).slice(0, own.begin, own.end));
  job.group().all_gather_into(place, whole).wait();
  ASSERT_TRUE(whole.cpu().equal(numbers(dtype, count, 7))) << dtype << " of " << count;
}

inline void check_uneven_parts(Job& job) {
  for (const std::int64_t more : {0, 1}) {
    const std::int64_t rows = 5 + more * job.rank();
    const auto all = job.group().all_gather_uneven(on_gpu(job, at::full({rows, 3}, job.rank())));
    ASSERT_EQ(all.size(), static_cast<std::size_t>(job.world_size()));
    for (int rank = 0; rank < job.world_size(); ++rank) {
      const at::Tensor& theirs = all[static_cast<std::size_t>(rank)];
      EXPECT_EQ(theirs.size(0), 5 + more * rank);
      EXPECT_TRUE(theirs.eq(rank).all().item<bool>());
    }
  }
}

inline void check_moves(Job& job) {
  const int world = job.world_size();
  const at::Tensor values = on_gpu(job, numbers(at::kFloat, 1000, job.rank()));
  const at::Tensor copy = values.clone();
  job.group().broadcast(copy, world - 1).wait();
  EXPECT_TRUE(copy.cpu().equal(numbers(at::kFloat, 1000, world - 1)));
  std::vector<at::Tensor> all;
  job.group().all_gather(values, all).wait();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    EXPECT_TRUE(all[static_cast<std::size_t>(rank)].cpu().equal(numbers(at::kFloat, 1000, rank)));
  }
  const at::Tensor rows = on_gpu(job, at::full({world, 3}, job.rank()));
  const at::Tensor exchanged = at::empty_like(rows);
  job.group().all_to_all(rows, exchanged).wait();
  for (int rank = 0; rank < world; ++rank) EXPECT_EQ(exchanged[rank].max().item<int>(), rank);
  const at::Tensor message = at::empty_like(values);
  Work sent = job.group().send(values, (job.rank() + 1) % world);
  job.group().recv(message, (job.rank() + world - 1) % world).wait();
  sent.wait();
  EXPECT_TRUE(message.cpu().equal(numbers(at::kFloat, 1000, (job.rank() + world - 1) % world)));
}

/// Collectives with a root, with uneven parts, and through host memory.
inline void check_other_moves(Job& job) {
  const int world = job.world_size();
  const at::Tensor values = on_gpu(job, at::full({3}, job.rank()));
  std::vector<at::Tensor> found;
  job.group().gather(values, found, 0).wait();
  ASSERT_EQ(found.size(), job.rank() == 0 ? static_cast<std::size_t>(world) : 0U);
  for (std::size_t rank = 0; rank < found.size(); ++rank) EXPECT_EQ(found[rank].max().item<int>(), rank);
  std::vector<at::Tensor> given;
  for (int rank = 0; rank < world && job.rank() == 0; ++rank) given.push_back(on_gpu(job, at::full({3}, rank)));
  const at::Tensor part = at::empty_like(values);
  job.group().scatter(given, part, 0).wait();
  EXPECT_EQ(part.max().item<int>(), job.rank());
  const at::Tensor bits = on_gpu(job, at::full({3}, 1 << job.rank(), at::kInt));
  job.group().all_reduce(bits, {.op = ReduceOp::kBitOr}).wait();
  EXPECT_EQ(bits.max().item<int>(), (1 << world) - 1);
}

inline void check_every_collective(Job& job) {
  check_reductions(job);
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kInt}) {
    for (const std::int64_t count : {0, 1, 1001, 1200}) check_parts(job, count, dtype);
  }
  check_uneven_parts(job);
  check_moves(job);
  check_other_moves(job);
  const auto half = job.group().split(job.rank() % 2);
  const at::Tensor ones = on_gpu(job, at::ones({10}));
  half->all_reduce(ones).wait();
  EXPECT_EQ(ones.max().item<float>(), half->world_size());
  job.barrier();
}

inline void keep_many_in_flight(Job& job, int rounds) {
  const at::Tensor values = on_gpu(job, at::ones({4096}));
  for (int round = 0; round < rounds; ++round) {
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) works.push_back(job.group().all_reduce(values, {.op = ReduceOp::kMean}));
    for (Work& work : works) work.wait();
    values.add_(1);
  }
  EXPECT_EQ(values.min().item<float>(), rounds + 1);
  EXPECT_EQ(values.max().item<float>(), rounds + 1);
}

inline void reduce_for_ever(Job& job) {
  const at::Tensor values = on_gpu(job, at::ones({1 << 18}));
  for (int step = 0;; ++step) {
    job.group().all_reduce(values, {.op = ReduceOp::kMean}).wait();
    (void)values.sum().item<float>();
    check_group(job.group());
    if (step == 3) job.print_all("the loop runs");
  }
}

}  // namespace lockstep::comm::device_collectives
