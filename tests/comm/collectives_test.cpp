// SPDX-License-Identifier: Apache-2.0
// The results of the collectives, on every backend and in every world.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/objects.h"
#include "support/carriers.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep::comm {
namespace collectives_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::RanksOptions;
using ::lockstep::testing::run_ranks;

/// Returns the expected result. Rank 0 computes large results for all ranks; broadcast has its own test.
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

/// At the large size, runs every op in float32 and only sums in the other dtypes; in worlds of more than three ranks,
/// only sums in float32 and bfloat16. Running everything would take minutes.
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
        const at::Tensor own = random_values(dtype, count, job.rank());
        const at::Tensor expected = expected_result(job, dtype, count, op);
        const at::Tensor bucket = job.group().allocate_bucket(count, dtype);
        EXPECT_EQ(bucket.count_nonzero().item<std::int64_t>(), 0);
        bucket.copy_(own);
        Work first = job.group().all_reduce(own, {.op = op});
        job.group().all_reduce(bucket, {.op = op}).wait();
        first.wait();
        ASSERT_TRUE(same_bits(own, expected)) << dtype << " of " << count << " op " << static_cast<int>(op);
        ASSERT_TRUE(same_bits(bucket, expected)) << "in a bucket: " << dtype << " of " << count;
      }
    }
  }
}

/// This rank's partial sums of its replicas' values, one per row.
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
    const at::Tensor own = at::full({1, 5000}, block.size(), dtype);
    job.group().all_reduce(own, {.op = ReduceOp::kMean, .replicas = replicas, .exact = false}).wait();
    ASSERT_TRUE(at::allclose(own, at::ones_like(own))) << dtype;
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
  const at::Tensor view = whole.transpose(0, 1).slice(0, 0, 6, 2).fill_(job.rank() + 1.0);
  job.group().all_reduce(view).wait();
  const double sum = job.world_size() * (job.world_size() + 1) / 2.0;
  EXPECT_EQ(view.min().item<double>(), sum);
  EXPECT_EQ(whole.sum().item<double>(), sum * 24);
  at::Tensor channels_last = at::full({2, 3, 4, 4}, job.rank(), at::MemoryFormat::ChannelsLast);
  job.group().broadcast(channels_last, 0).wait();
  EXPECT_EQ(channels_last.max().item<double>(), 0);
}

/// Many operations in flight, awaited from last to first: their results must not get mixed up.
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
  EXPECT_THAT([&] { (void)job.group().all_reduce(at::ones({2}, at::kComplexFloat)); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("float64, uint8, int8, int16, int32, int64")));
  const at::Tensor shared = at::ones({1}).expand({2 * job.world_size()});
  EXPECT_THROW((void)job.group().all_reduce(shared), UsageError);
  EXPECT_THROW((void)job.group().broadcast(shared, 0), UsageError);
  const at::Tensor part = at::empty({2});
  job.group().reduce_scatter(shared, part).wait();
  EXPECT_EQ(part.sum().item<int>(), 2 * job.world_size()) << "an input may be an expanded tensor";
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
  SKIP_WITHOUT_UCX(backend);
  run_ranks(current_test(),
            [&](Job& job) {
              ASSERT_EQ(job.world_size(), world);
              ASSERT_EQ(job.backend(), world == 1 ? "local" : backend);
              everything(job);
            },
            {.world = world, .env = testing::backend_variables(backend), .deadline = std::chrono::seconds(100)});
}

std::string name_of_combination(const ::testing::TestParamInfo<std::tuple<std::string, int>>& combination) {
  return std::get<0>(combination.param) + "In" + std::to_string(std::get<1>(combination.param));
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, Collectives,
                         ::testing::Combine(::testing::Values("shm"), ::testing::Values(1, 2, 3, 4, 5, 7, 8)),
                         name_of_combination);
INSTANTIATE_TEST_SUITE_P(Network, Collectives,
                         ::testing::Combine(::testing::Values("tcp"), ::testing::Values(2, 3, 5, 8)),
                         name_of_combination);
INSTANTIATE_TEST_SUITE_P(Ucx, Collectives, ::testing::Combine(::testing::Values("ucx"), ::testing::Values(2, 5)),
                         name_of_combination);

class Hierarchy : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(Hierarchy, HasTheModelsBitsWithSharedMemoryInsideEveryHostAndTcpBetweenThem) {
  const std::vector<int> sizes = GetParam();
  const int world = std::accumulate(sizes.begin(), sizes.end(), 0);
  run_ranks(current_test(),
            [&](Job& job) {
              ASSERT_EQ(job.backend(), "shm+tcp");
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

namespace more_collectives_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The collectives other than all_reduce, broadcast and all_gather; messages, objects and subgroups. All on every
// backend, with sizes of zero, one and several chunks.

const std::vector<std::int64_t> kSizes = {0, 1, 3, 1000, 300'001};

std::vector<at::Tensor> inputs_of_all(const Job& job, at::ScalarType dtype, std::int64_t count) {
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < job.world_size(); ++rank) inputs.push_back(random_values(dtype, count, rank));
  return inputs;
}

at::Tensor in_bucket(Job& job, const at::Tensor& values) {
  return job.group()
      .allocate_bucket(values.numel(), values.scalar_type())
      .copy_(values.reshape({-1}))
      .view(values.sizes());
}

void sweep_reduce(Job& job) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kShort}) {
    for (const std::int64_t count : kSizes) {
      const at::Tensor expected = model(inputs_of_all(job, dtype, count), ReduceOp::kSum);
      const at::Tensor own = random_values(dtype, count, job.rank());
      for (const bool bucket : {false, true}) {
        const int root = (job.world_size() - 1) % 3;
        const at::Tensor tensor = bucket ? in_bucket(job, own) : own.clone();
        job.group().reduce(tensor, root).wait();
        ASSERT_TRUE(same_bits(tensor, job.rank() == root ? expected : own)) << dtype << " of " << count;
      }
    }
  }
}

void sweep_reduce_scatter(Job& job) {
  for (const auto dtype : {at::kFloat, at::kHalf}) {
    for (const std::int64_t count : kSizes) {
      const at::Tensor sum = model(inputs_of_all(job, dtype, count), ReduceOp::kMean);
      const ElementRange part = shard_of(count, job.world_size(), job.rank());
      const at::Tensor expected = sum.slice(0, part.begin, part.end).clone();
      for (const bool bucket : {false, true}) {
        const at::Tensor values = random_values(dtype, count, job.rank());
        const at::Tensor input = bucket ? in_bucket(job, values) : values;
        const at::Tensor output = at::empty({part.size()}, dtype);
        job.group().reduce_scatter(input, output, {.op = ReduceOp::kMean}).wait();
        ASSERT_TRUE(same_bits(output, expected)) << dtype << " of " << count;
        ASSERT_TRUE(same_bits(input, random_values(dtype, count, job.rank()))) << "the input was changed";
        const at::Tensor own = input.slice(0, part.begin, part.end);
        job.group().reduce_scatter(input, own, {.op = ReduceOp::kMean}).wait();
        ASSERT_TRUE(same_bits(own, expected)) << "in place: " << dtype << " of " << count;
        const at::Tensor whole = bucket ? in_bucket(job, at::zeros({count}, dtype)) : at::zeros({count}, dtype);
        const at::Tensor place = whole.slice(0, part.begin, part.end);
        place.copy_(output);
        job.group().all_gather_into(place, whole).wait();
        ASSERT_TRUE(same_bits(whole, sum)) << "put together: " << dtype << " of " << count;
      }
    }
  }
}

/// The values in row r of rank s are unique to (s, r).
at::Tensor rows_for_all(const Job& job, std::int64_t count, int sender) {
  std::vector<at::Tensor> rows;
  for (int to = 0; to < job.world_size(); ++to) rows.push_back(random_values(at::kFloat, count, sender * 16 + to));
  return at::stack(rows);
}

void sweep_all_to_all(Job& job) {
  for (const std::int64_t count : kSizes) {
    std::vector<at::Tensor> expected;
    for (int from = 0; from < job.world_size(); ++from) {
      expected.push_back(random_values(at::kFloat, count, from * 16 + job.rank()));
    }
    for (const bool bucket : {false, true}) {
      const at::Tensor rows = rows_for_all(job, count, job.rank());
      const at::Tensor input = bucket ? in_bucket(job, rows) : rows;
      const at::Tensor output = at::empty_like(rows);
      job.group().all_to_all(input, output).wait();
      ASSERT_TRUE(same_bits(output, at::stack(expected))) << count;
    }
  }
}

void check_uneven(Job& job) {
  for (const std::int64_t width : {0, 3, 50'000}) {
    const auto rows_of = [&](int rank) {
      return random_values(at::kLong, rank * 2 * width, rank).view({rank * 2, width});
    };
    const std::vector<at::Tensor> all = job.group().all_gather_uneven(rows_of(job.rank()));
    ASSERT_EQ(all.size(), static_cast<std::size_t>(job.world_size()));
    for (int rank = 0; rank < job.world_size(); ++rank) {
      ASSERT_TRUE(same_bits(all[static_cast<std::size_t>(rank)], rows_of(rank))) << rank << " x " << width;
    }
    const auto part = [&](int from, int to) { return at::full({from + 2 * to, width}, from * 100 + to); };
    std::vector<at::Tensor> inputs;
    for (int to = 0; to < job.world_size(); ++to) inputs.push_back(part(job.rank(), to));
    const std::vector<at::Tensor> got = job.group().all_to_all_uneven(inputs);
    for (int from = 0; from < job.world_size(); ++from) {
      ASSERT_TRUE(same_bits(got[static_cast<std::size_t>(from)], part(from, job.rank())));
    }
  }
}

void sweep_gather_and_scatter(Job& job) {
  for (const std::int64_t count : kSizes) {
    const int root = job.world_size() - 1;
    std::vector<at::Tensor> gathered;
    job.group().gather(random_values(at::kDouble, count, job.rank()), gathered, root).wait();
    ASSERT_EQ(gathered.size(), job.rank() == root ? static_cast<std::size_t>(job.world_size()) : 0U);
    for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
      ASSERT_TRUE(same_bits(gathered[rank], random_values(at::kDouble, count, static_cast<int>(rank))));
    }
    std::vector<at::Tensor> inputs;
    if (job.rank() == root) inputs = rows_for_all(job, count, root).unbind(0);
    const at::Tensor own = at::empty({count, 1}).transpose(0, 1);
    job.group().scatter(inputs, own, root).wait();
    ASSERT_TRUE(same_bits(own.reshape({-1}), random_values(at::kFloat, count, root * 16 + job.rank())));
  }
}

/// Every rank sends to every other at once, in a different order than it receives, with some messages larger than any
/// buffer: there is no deadlock.
void check_messages(Job& job) {
  std::vector<Work> works;
  std::vector<at::Tensor> received;
  const std::vector<std::int64_t> counts = {5, 400'000, 0, 7};
  const auto message = [&](int from, int to, std::int64_t count) {
    return random_values(at::kFloat, count, from * 31 + to * 7 + 1);
  };
  for (int step = 1; step < job.world_size(); ++step) {
    const int to = (job.rank() + step) % job.world_size();
    for (const auto count : counts) works.push_back(job.group().send(message(job.rank(), to, count), to));
  }
  job.barrier();
  for (int from = 0; from < job.world_size(); ++from) {
    for (const auto count : counts) {
      if (from == job.rank()) continue;
      received.push_back(at::empty({count}));
      works.push_back(job.group().recv(received.back(), from));
    }
  }
  for (Work& work : works) work.wait();
  std::size_t next = 0;
  for (int from = 0; from < job.world_size(); ++from) {
    for (const auto count : counts) {
      if (from == job.rank()) continue;
      ASSERT_TRUE(same_bits(received[next++], message(from, job.rank(), count))) << from << " " << count;
    }
  }
}

void check_objects(Job& job) {
  using Table = std::map<std::string, std::vector<double>>;
  const auto table_of = [](int rank) { return Table{{"rank", {double(rank)}}, {"values", {0.1 * rank, 1e300, -0.0}}}; };
  const std::vector<Table> all = all_gather_object(job.group(), table_of(job.rank()));
  for (int rank = 0; rank < job.world_size(); ++rank) EXPECT_EQ(all[static_cast<std::size_t>(rank)], table_of(rank));
  const int root = job.world_size() - 1;
  EXPECT_EQ(broadcast_object(job.group(), table_of(job.rank()), root), table_of(root));
  EXPECT_EQ(broadcast_object(job.group(), std::string(100'000 * static_cast<std::size_t>(job.rank()), 'x'), 0), "");
}

/// Two half-sized groups reduce at the same time as the whole, each in its own order.
void check_groups(Job& job) {
  const auto half = job.group().split(job.rank() % 2, -job.rank());
  const int members = (job.world_size() + (job.rank() % 2 == 0 ? 1 : 0)) / 2;
  ASSERT_EQ(half->world_size(), members);
  EXPECT_EQ(half->rank(), members - 1 - job.rank() / 2) << "ordered by key";
  std::vector<Work> works;
  std::vector<at::Tensor> in_half;
  std::vector<at::Tensor> in_all;
  for (int i = 0; i < 6; ++i) {
    in_half.push_back(at::full({50'000}, job.rank()));
    in_all.push_back(at::ones({50'000}));
    if (job.rank() % 2 == 0) works.push_back(half->all_reduce(in_half.back()));
    works.push_back(job.group().all_reduce(in_all.back()));
    if (job.rank() % 2 == 1) works.push_back(half->all_reduce(in_half.back()));
  }
  for (Work& work : works) work.wait();
  int sum = 0;
  for (int rank = job.rank() % 2; rank < job.world_size(); rank += 2) sum += rank;
  for (const auto& tensor : in_half) EXPECT_EQ(tensor.min().item<int>(), sum);
  for (const auto& tensor : in_all) EXPECT_EQ(tensor.max().item<int>(), job.world_size());
  const auto none = job.group().split(job.is_main() ? -1 : 0);
  EXPECT_EQ(none == nullptr, job.is_main());
  if (none != nullptr) {
    EXPECT_EQ(none->world_size(), job.world_size() - 1);
  }
  job.barrier();
}

void check_refusals(Job& job) {
  ProcessGroup& group = job.group();
  EXPECT_THROW((void)group.send(at::ones({1}), job.rank()), UsageError);
  EXPECT_THROW((void)group.reduce(at::ones({1}), job.world_size()), UsageError);
  EXPECT_THROW((void)group.all_to_all(at::ones({job.world_size() + 1}), at::ones({job.world_size() + 1})), UsageError);
  const at::Tensor both = at::ones({job.world_size()});
  EXPECT_THROW((void)group.all_to_all(both, both), UsageError);
  EXPECT_THROW((void)group.reduce_scatter(at::ones({4 * job.world_size()}), at::ones({5})), UsageError);
  EXPECT_THROW((void)group.all_gather_into(at::ones({1}, at::kInt), at::ones({job.world_size()})), UsageError);
  EXPECT_THROW((void)group.all_to_all_uneven({at::ones({1})}), UsageError);
}

void everything(Job& job) {
  sweep_reduce(job);
  sweep_reduce_scatter(job);
  sweep_all_to_all(job);
  check_uneven(job);
  sweep_gather_and_scatter(job);
  check_messages(job);
  check_objects(job);
  check_groups(job);
  check_refusals(job);
  job.barrier();
}

class MoreCollectives : public ::testing::TestWithParam<std::tuple<std::string, std::vector<int>>> {};

TEST_P(MoreCollectives, MoveAndCombineEveryRanksPart) {
  const auto& [backend, hosts] = GetParam();
  SKIP_WITHOUT_UCX(backend);
  const int world = std::accumulate(hosts.begin(), hosts.end(), 0);
  run_ranks(current_test(),
            [&](Job& job) {
              ASSERT_EQ(job.backend(), backend);
              everything(job);
            },
            {.world = world,
             .env = testing::backend_variables(backend),
             .deadline = std::chrono::seconds(100),
             .host_sizes = hosts});
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, MoreCollectives,
                         ::testing::Combine(::testing::Values("shm"),
                                            ::testing::Values(std::vector<int>{2}, std::vector<int>{3},
                                                              std::vector<int>{5})));
INSTANTIATE_TEST_SUITE_P(Network, MoreCollectives,
                         ::testing::Combine(::testing::Values("tcp"),
                                            ::testing::Values(std::vector<int>{2}, std::vector<int>{4})));
INSTANTIATE_TEST_SUITE_P(Hierarchy, MoreCollectives,
                         ::testing::Combine(::testing::Values("shm+tcp"),
                                            ::testing::Values(std::vector<int>{2, 1}, std::vector<int>{1, 3})));
INSTANTIATE_TEST_SUITE_P(Ucx, MoreCollectives,
                         ::testing::Combine(::testing::Values("ucx"), ::testing::Values(std::vector<int>{4})));
INSTANTIATE_TEST_SUITE_P(UcxHierarchy, MoreCollectives,
                         ::testing::Combine(::testing::Values("shm+ucx"), ::testing::Values(std::vector<int>{1, 3})));

TEST(MoreCollectives, AreTheIdentityInAWorldOfOne) {
  const Job job = init(0, nullptr);
  ProcessGroup& group = job.group();
  const at::Tensor values = at::arange(6, at::kFloat);
  const at::Tensor output = at::empty({6});
  group.reduce_scatter(values, output, {.op = ReduceOp::kMean}).wait();
  EXPECT_TRUE(same_bits(output, values));
  group.all_to_all(values, output.zero_()).wait();
  EXPECT_TRUE(same_bits(output, values));
  group.scatter({values}, output.zero_(), 0).wait();
  EXPECT_TRUE(same_bits(output, values));
  EXPECT_TRUE(same_bits(group.all_gather_uneven(values).at(0), values));
  EXPECT_EQ(all_gather_object(group, 7), std::vector<int>{7});
  const auto same = group.split(3);
  EXPECT_EQ(same->world_size(), 1);
}

TEST(Messages, ThatDoNotMatchNameBothSides) {
  for (const char* backend : {"shm", "tcp", "ucx"}) {
    SKIP_WITHOUT_UCX(backend);
    testing::RankProcesses ranks(current_test(),
                                 [](Job& job) {
                                   if (job.rank() == 0) return job.group().send(at::ones({3}), 1).wait(), job.barrier();
                                   job.group().recv(at::ones({4}, at::kDouble), 0).wait();
                                 },
                                 {.world = 2, .env = testing::backend_variables(backend)});
    const auto ends = ranks.wait();
    EXPECT_EQ(ends[1].code, 64) << ends[1].log;
    EXPECT_THAT(ends[1].log, HasSubstr("recv of 4 float64 on rank 1, send of 3 float32 on rank 0"));
  }
}

TEST(Split, NamesTheJobsRanksInItsErrors) {
  testing::RankProcesses ranks(current_test(),
                               [](Job& job) {
                                 const auto upper = job.group().split(job.rank() / 2);
                                 if (job.rank() == 3) throw DataError("picture 9 is broken");
                                 upper->barrier().wait();
                               },
                               {.world = 4});
  const auto ends = ranks.wait();
  EXPECT_EQ(ends[2].code, 75) << ends[2].log;
  EXPECT_THAT(ends[2].log, HasSubstr("rank 3 on"));
  EXPECT_THAT(ends[2].log, HasSubstr("picture 9 is broken"));
}

}  // namespace more_collectives_test
}  // namespace lockstep::comm
