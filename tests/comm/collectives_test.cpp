// SPDX-License-Identifier: Apache-2.0
// What the collectives compute, on both backends and in every world: one launch per world, the sweep inside.
#include <gmock/gmock.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep::comm {
namespace collectives_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::RanksOptions;
using ::lockstep::testing::run_ranks;

/// The model's result. Rank 0 computes the large ones for all: the broadcast has its own test.
at::Tensor expected_result(Job& job, at::ScalarType dtype, std::int64_t count, ReduceOp op) {
  at::Tensor expected = at::empty({count}, dtype);
  const bool share = count > 1000;
  if (!share || job.is_main()) {
    std::vector<at::Tensor> inputs;
    for (int rank = 0; rank < job.world_size(); ++rank) inputs.push_back(random_values(dtype, count, rank));
    expected = model(inputs, op);
  }
  if (share) job.group().broadcast(expected, 0).wait();
  return expected;
}

/// The large size runs every op in one dtype and one op in the others, few of these in large worlds: all would take
/// minutes.
std::vector<ReduceOp> ops_to_run(const Job& job, at::ScalarType dtype, std::int64_t count) {
  if (count <= 1000) return ops_for(dtype);
  if (job.world_size() > 3 && dtype != at::kFloat && dtype != at::kBFloat16) return {};
  if (job.world_size() > 3 || dtype != at::kFloat) return {ReduceOp::kSum};
  return ops_for(dtype);
}

void sweep_all_reduce(Job& job) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t count : {0, 1, 3, 1000, (1 << 20) + 1}) {
      for (const ReduceOp op : ops_to_run(job, dtype, count)) {
        const at::Tensor mine = random_values(dtype, count, job.rank());
        const at::Tensor expected = expected_result(job, dtype, count, op);
        const at::Tensor bucket = job.group().allocate_bucket(count, dtype);
        EXPECT_EQ(bucket.count_nonzero().item<std::int64_t>(), 0);
        bucket.copy_(mine);
        Work first = job.group().all_reduce(mine, {.op = op});
        job.group().all_reduce(bucket, {.op = op}).wait();
        first.wait();
        ASSERT_TRUE(same_bits(mine, expected)) << dtype << " of " << count << " op " << static_cast<int>(op);
        ASSERT_TRUE(same_bits(bucket, expected)) << "in a bucket: " << dtype << " of " << count;
      }
    }
  }
}

/// This rank's partial sums of what its replicas hold, a row each.
at::Tensor partial_sums(Job& job, const std::vector<at::Tensor>& inputs) {
  const auto replicas = static_cast<int>(inputs.size());
  const ReplicaSpan block = replicas_of_rank(job.rank(), job.world_size(), replicas);
  std::vector<at::Tensor> rows;
  for (const ReplicaSpan& span : whole_subtrees(block, replicas)) {
    rows.push_back(model_tree(inputs, span.begin, span.end, ReduceOp::kSum));
  }
  return at::stack(rows);
}

void sweep_replicas(Job& job) {
  for (const int replicas : {job.world_size(), job.world_size() + 1, 2 * job.world_size() + 3}) {
    for (const std::int64_t count : {0, 3, 1000, 200'001}) {
      std::vector<at::Tensor> inputs;
      for (int r = 0; r < replicas; ++r) inputs.push_back(random_values(at::kFloat, count, r));
      const at::Tensor expected = model(inputs, ReduceOp::kMean);
      const at::Tensor rows = partial_sums(job, inputs);
      const at::Tensor bucket = job.group().allocate_bucket(rows.numel(), at::kFloat).view(rows.sizes());
      bucket.copy_(rows);
      const ReduceOptions options{.op = ReduceOp::kMean, .replicas = replicas};
      job.group().all_reduce(rows, options).wait();
      job.group().all_reduce(bucket, options).wait();
      ASSERT_TRUE(same_bits(rows[0], expected)) << replicas << " replicas, " << count << " elements";
      ASSERT_TRUE(same_bits(bucket[0], expected)) << "in a bucket: " << replicas << " replicas of " << count;
    }
  }
}

void sweep_inexact(Job& job) {
  const int replicas = job.world_size() + 2;
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const ReplicaSpan block = replicas_of_rank(job.rank(), job.world_size(), replicas);
    const at::Tensor mine = at::full({1, 5000}, block.size(), dtype);
    job.group().all_reduce(mine, {.op = ReduceOp::kMean, .replicas = replicas, .exact = false}).wait();
    ASSERT_TRUE(at::allclose(mine, at::ones_like(mine))) << dtype;
  }
}

void sweep_copies(Job& job) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t count : {0, 1, 3, 1000, 300'001}) {
      const int root = job.world_size() - 1;
      at::Tensor tensor = random_values(dtype, count, job.rank());
      job.group().broadcast(tensor, root).wait();
      ASSERT_TRUE(same_bits(tensor, random_values(dtype, count, root))) << dtype << " of " << count;
      std::vector<at::Tensor> all;
      job.group().all_gather(random_values(dtype, count, job.rank()), all).wait();
      ASSERT_EQ(all.size(), static_cast<std::size_t>(job.world_size()));
      for (int rank = 0; rank < job.world_size(); ++rank) {
        ASSERT_TRUE(same_bits(all[static_cast<std::size_t>(rank)], random_values(dtype, count, rank)));
      }
    }
  }
  job.barrier();
}

void check_strided(Job& job) {
  at::Tensor whole = at::zeros({4, 6, 2});
  at::Tensor view = whole.transpose(0, 1).slice(0, 0, 6, 2);
  view.fill_(job.rank() + 1.0);
  job.group().all_reduce(view).wait();
  const double sum = job.world_size() * (job.world_size() + 1) / 2.0;
  EXPECT_EQ(view.min().item<double>(), sum);
  EXPECT_EQ(whole.sum().item<double>(), sum * 24);
  at::Tensor channels_last = at::full({2, 3, 4, 4}, job.rank(), at::MemoryFormat::ChannelsLast);
  job.group().broadcast(channels_last, 0).wait();
  EXPECT_EQ(channels_last.max().item<double>(), 0);
}

/// Many operations in flight, waited for from last to first, between which the results must not mix.
void check_overlap(Job& job) {
  std::vector<at::Tensor> tensors;
  std::vector<Work> works;
  for (int i = 0; i < 40; ++i) {
    const std::int64_t count = i % 3 == 0 ? 200'000 : 10;
    tensors.push_back(i % 2 == 0 ? job.group().allocate_bucket(count, at::kFloat) : at::empty({count}));
    tensors.back().fill_(i + job.rank());
    works.push_back(job.group().all_reduce(tensors.back(), {.op = ReduceOp::kMax}));
  }
  for (std::size_t i = works.size(); i-- > 0;) works[i].wait();
  for (std::size_t i = 0; i < works.size(); ++i) {
    EXPECT_TRUE(works[i].is_done());
    const double expected = static_cast<double>(i) + job.world_size() - 1;
    ASSERT_EQ(tensors[i].min().item<double>(), expected);
    ASSERT_EQ(tensors[i].max().item<double>(), expected);
  }
}

void check_then(Job& job) {
  for (const std::int64_t count : {5, 300'000}) {
    const at::Tensor tensor = job.group().allocate_bucket(count, at::kFloat).fill_(1);
    double seen = 0;
    job.group().all_reduce(tensor, {.then = [&] { seen = tensor.min().item<double>(); }}).wait();
    EXPECT_EQ(seen, job.world_size()) << count;
  }
  EXPECT_THROW((void)job.group().all_reduce(at::ones({3, 2}).t(), {.then = [] {}}), UsageError);
}

void check_refusals(Job& job) {
  EXPECT_THROW((void)job.group().all_reduce(at::ones({2}, at::kInt), {.op = ReduceOp::kMean}), UsageError);
  EXPECT_THROW((void)job.group().all_reduce(at::ones({2}), {.op = ReduceOp::kBitAnd}), UsageError);
  EXPECT_THROW((void)job.group().all_reduce(at::Tensor()), UsageError);
  EXPECT_THROW((void)job.group().broadcast(at::ones({2}), job.world_size()), UsageError);
  EXPECT_THROW((void)job.group().allocate_bucket(2, at::kComplexFloat), UsageError);
  try {
    (void)job.group().all_reduce(at::ones({2}, at::kComplexFloat));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("float32, bfloat16, float16, float64, uint8, int8, int16, int32, int64 and bool"));
  }
}

void everything(Job& job) {
  sweep_all_reduce(job);
  sweep_replicas(job);
  sweep_inexact(job);
  sweep_copies(job);
  check_strided(job);
  check_overlap(job);
  check_then(job);
  check_refusals(job);
}

class Collectives : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Collectives, HaveTheModelsBitsInEveryWorldOnEveryBackend) {
  const auto& [backend, world] = GetParam();
  run_ranks(current_test(),
            [&](Job& job) {
              ASSERT_EQ(job.world_size(), world);
              ASSERT_EQ(job.backend(), world == 1 ? "local" : backend);
              everything(job);
            },
            {.world = world, .env = {{"LOCKSTEP_BACKEND", backend}}, .deadline = std::chrono::seconds(100)});
}

std::string name_of_combination(const ::testing::TestParamInfo<std::tuple<std::string, int>>& combination) {
  return std::get<0>(combination.param) + "In" + std::to_string(std::get<1>(combination.param));
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, Collectives,
                         ::testing::Combine(::testing::Values("shm"), ::testing::Values(1, 2, 3, 4, 5, 7, 8)),
                         name_of_combination);
INSTANTIATE_TEST_SUITE_P(Network, Collectives,
                         ::testing::Combine(::testing::Values("gloo"), ::testing::Values(2, 3, 5, 8)),
                         name_of_combination);

class Hierarchy : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(Hierarchy, HasTheModelsBitsWithSharedMemoryInsideEveryHostAndGlooBetweenThem) {
  const std::vector<int> sizes = GetParam();
  const int world = std::accumulate(sizes.begin(), sizes.end(), 0);
  run_ranks(current_test(),
            [&](Job& job) {
              ASSERT_EQ(job.backend(), "shm+gloo");
              everything(job);
            },
            {.world = world, .deadline = std::chrono::seconds(100), .host_sizes = sizes});
}

INSTANTIATE_TEST_SUITE_P(Hosts, Hierarchy,
                         ::testing::Values(std::vector<int>{2, 1}, std::vector<int>{2, 2}, std::vector<int>{1, 3, 2}));

RANKS_TEST(Buckets, GiveTheirMemoryBackAndNameSizesWhenItIsShort, 2) {
  for (int i = 0; i < 20; ++i) {
    at::Tensor bucket = job.group().allocate_bucket(1 << 20, at::kFloat);
    EXPECT_EQ(bucket.sum().item<float>(), 0);
    bucket.fill_(1);
  }
  const at::Tensor first = job.group().allocate_bucket(100, at::kFloat);
  const at::Tensor other = job.group().allocate_bucket(100, at::kFloat);
  EXPECT_NE(first.data_ptr(), other.data_ptr());
  try {
    (void)job.group().allocate_bucket(std::int64_t{1} << 44, at::kFloat);
    FAIL() << "70 TB were granted";
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("70.4 TB"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("of memory available"));
  }
  job.barrier();
}

RANKS_TEST(Buckets, OutliveTheirJob, 2) {
  at::Tensor bucket = job.group().allocate_bucket(1000, at::kFloat);
  job.barrier();
  job = Job();
  bucket.fill_(3);
  EXPECT_EQ(bucket.sum().item<float>(), 3000);
}

RANKS_TEST(AllReduce, NamesTheRowsThatItNeeds, 2) {
  const at::Tensor rows = at::zeros({2, 4});
  try {
    job.group().all_reduce(rows, {.replicas = 4}).wait();
    ADD_FAILURE() << "two rows were taken on a rank with one whole subtree";
  } catch (const UsageError& error) {
    EXPECT_NE(error.message().find("2 rows on rank"), std::string::npos) << error.message();
  }
  EXPECT_THROW(job.group().all_reduce(rows, {.replicas = 1}).wait(), UsageError);
}

TEST(Job, IsOfNoUseBeforeInit) {
  EXPECT_THROW((void)Job().rank(), UsageError);
  EXPECT_THROW(Job().barrier(), UsageError);
}

TEST(Job, AloneIsAWorldOfOneWhoseCollectivesDoNothing) {
  const char* argv[] = {"program", "--backend=shm"};
  const Job job = init(2, argv);
  EXPECT_EQ(job.world_size(), 1);
  EXPECT_EQ(job.backend(), "local");
  EXPECT_EQ(job.shard(), (ShardSpec{0, 1}));
  at::Tensor tensor = at::ones({3});
  job.group().all_reduce(tensor).wait();
  EXPECT_EQ(tensor.sum().item<float>(), 3);
  job.store().set("key", "value");
  EXPECT_EQ(job.store().try_get("key"), "value");
  EXPECT_THROW((void)init(0, nullptr, {.replicas = 4}).shard(), UsageError);
  const char* wrong[] = {"program", "--backend", "nccll"};
  EXPECT_THROW((void)init(3, wrong), UsageError);
}

}  // namespace collectives_test
}  // namespace lockstep::comm
