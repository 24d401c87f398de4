// SPDX-License-Identifier: Apache-2.0
// Many more ranks than processors, and random programs of collectives.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/process_group.h"
#include "support/carriers.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep {
namespace many_ranks_test {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 20;
constexpr std::int64_t kElements = 1024;

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

double since_boot() { return microseconds(Clock::now().time_since_epoch()); }

double processor_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// KiB of memory, with shared pages divided among the processes that map them.
long proportional_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    long size = 0;
    if (word == "Pss:" && file >> size) return size;
  }
  return 0;
}

// A rank's measurements, from its last output line.
struct Figures {
  double formed = 0;        // when its group was formed, in microseconds since boot
  double wall_us = 0;       // time of an all-reduce of 4 KiB
  double processor_us = 0;  // CPU time of the same all-reduce
  long kib = 0;

  [[nodiscard]] std::string line() const {
    return fmt::format("figures {:.0f} {:.3f} {:.3f} {}\n", formed, wall_us, processor_us, kib);
  }
  static Figures from(const std::string& log) {
    Figures one;
    const auto at = log.rfind("figures ");
    if (at == std::string::npos || std::sscanf(log.c_str() + at, "figures %lf %lf %lf %ld", &one.formed, &one.wall_us,
                                               &one.processor_us, &one.kib) != 4) {
      ADD_FAILURE() << "a rank said no figures: " << log;
    }
    return one;
  }
};

void reduce_and_tell(Job& job) {
  Figures own{.formed = since_boot()};
  const double world = job.world_size();
  std::vector<double> times;
  double before = 0;
  for (int round = -2; round < kRounds; ++round) {  // two warm-up rounds
    if (round == 0) before = processor_time();
    auto values = at::full({kElements}, 1.0 + job.rank() + round);
    const auto begin = Clock::now();
    job.group().all_reduce(values).wait();
    if (round >= 0) times.push_back(microseconds(Clock::now() - begin));
    // Whole numbers below 2^24: the sum is exact.
    const double sum = world * (world + 1) / 2 + world * round;
    EXPECT_EQ(values.eq(sum).sum().item<std::int64_t>(), kElements) << "round " << round;
  }
  own.processor_us = (processor_time() - before) / kRounds;
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  own.wall_us = times[kRounds / 2];
  own.kib = proportional_memory();
  job.barrier();  // memory is measured while all ranks are alive
  std::printf("%s", own.line().c_str());
}

struct Shape {
  int hosts = 8;
  int ranks = 8;  // on each host
};

Shape shape() {
  Shape shape;
  const auto text = env::get("MANY_RANKS");
  if (text && std::sscanf(text->c_str(), "%dx%d", &shape.hosts, &shape.ranks) != 2) {
    ADD_FAILURE() << "MANY_RANKS is " << *text << ", not HOSTSxRANKS";
  }
  return shape;
}

void note(const Shape& shape, const std::vector<Figures>& all, double start) {
  const auto file = env::get("MANY_RANKS_RESULTS");
  if (!file) return;
  const auto largest = [&](auto member) {
    return (*std::max_element(all.begin(), all.end(), [&](auto& a, auto& b) { return a.*member < b.*member; })).*member;
  };
  const auto mean = [&](auto member) {
    return std::accumulate(all.begin(), all.end(), 0.0, [&](double sum, auto& one) { return sum + one.*member; }) /
           static_cast<double>(all.size());
  };
  std::ofstream(*file, std::ios::app) << fmt::format(
      R"({{"hosts": {}, "ranks": {}, "formed_s": {:.3f}, "all_reduce_us": {:.1f}, "processor_us": {:.1f}, "mib": {:.2f}}})"
      "\n",
      shape.hosts, shape.hosts * shape.ranks, (largest(&Figures::formed) - start) / 1e6, largest(&Figures::wall_us),
      mean(&Figures::processor_us), mean(&Figures::kib) / 1024);
}

TEST(ManyRanks, FormAGroupAndSumExactly) {
  const Shape shape = many_ranks_test::shape();
  testing::RanksOptions options{.world = shape.hosts * shape.ranks, .deadline = std::chrono::seconds(280)};
  options.env["LOCKSTEP_TIMEOUT"] = "200";
  if (shape.hosts > 1) options.host_sizes.assign(static_cast<std::size_t>(shape.hosts), shape.ranks);
  const double start = since_boot();
  testing::RankProcesses ranks(testing::current_test(), reduce_and_tell, options);
  std::vector<Figures> all;
  for (const auto& end : ranks.wait()) {
    ASSERT_EQ(end.code, 0) << end.log;
    all.push_back(Figures::from(end.log));
  }
  note(shape, all, start);
}

// Used on 12 and on 9 hosts: too many to exchange everything in one round, and not a power of two.
void reduce_all_dtypes(Job& job) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble, at::kInt}) {
    for (const std::int64_t count : {1, 1000, 50'000}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        std::vector<at::Tensor> inputs;
        for (int rank = 0; rank < job.world_size(); ++rank) inputs.push_back(comm::random_values(dtype, count, rank));
        const at::Tensor own = inputs[static_cast<std::size_t>(job.rank())].clone();
        job.group().all_reduce(own, {.op = op}).wait();
        ASSERT_TRUE(comm::same_bits(own, comm::model(inputs, op))) << dtype << ", " << count << " elements";
      }
    }
  }
}

TEST(ManyRanks, OnManyHostsHaveTheBitsOfTheTree) {
  testing::run_ranks(testing::current_test(), reduce_all_dtypes,
                     {.world = 12, .deadline = std::chrono::seconds(120), .host_sizes = std::vector<int>(12, 1)});
}

TEST(ManyRanks, OnManyHostsWithNeighboursHaveTheBitsOfTheTree) {
  testing::run_ranks(testing::current_test(), reduce_all_dtypes,
                     {.world = 18, .deadline = std::chrono::seconds(120), .host_sizes = std::vector<int>(9, 2)});
}

void call_something_else_on_one(Job& job) {
  auto values = at::full({job.rank() == 7 ? 5 : 4}, 1.0);
  try {
    job.group().all_reduce(values).wait();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UsageError& problem) {
    EXPECT_THAT(problem.message(), ::testing::HasSubstr(job.rank() == 7 ? "rank 0" : "rank 7"));
  }
}

TEST(ManyRanks, NameTheOneThatCalledSomethingElse) {
  testing::run_ranks(testing::current_test(), call_something_else_on_one,
                     {.world = 12, .deadline = std::chrono::seconds(120), .host_sizes = std::vector<int>(12, 1)});
}

}  // namespace many_ranks_test
}  // namespace lockstep

namespace lockstep::comm {
namespace many_ranks_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;

// Random programs of collectives: kind, operation, dtype, size, place, group, order of waiting and each rank's delays
// are drawn; every result is compared with a serial model. LOCKSTEP_PROGRAMS sets how many (scripts/trials/trial
// collective_programs runs many), LOCKSTEP_PROGRAMS_SEED the first seed.

/// Draws the same on every rank.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(limit));
  }
  template <class T>
  T one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

/// A collective in flight, and its expected results.
struct Pending {
  Work work;
  std::vector<at::Tensor> got;
  std::vector<at::Tensor> expected;
  std::string what;
};

/// One program on one rank.
class Program {
 public:
  Program(Job& job, std::uint64_t seed, const std::vector<ProcessGroup*>& groups,
          const std::vector<std::vector<int>>& members)
      : job_(job),
        seed_(seed),
        draw_(seed),
        delays_(seed * 64 + static_cast<std::uint64_t>(job.rank())),
        groups_(groups),
        members_(members) {}

  /// Returns the difference from the model; empty if there is none.
  std::string run() {
    const std::int64_t count = 2 + draw_.below(6);
    for (std::int64_t i = 0; i < count; ++i) {
      if (delays_.below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(delays_.below(300)));
      start(static_cast<int>(i));
      if (delays_.below(2) == 0) finish_one();
    }
    while (!pending_.empty()) finish_one();
    return wrong_;
  }

 private:
  at::Tensor values(at::ScalarType dtype, std::int64_t count, int operation, int rank) {
    return random_values(dtype, count, static_cast<int>(seed_ % 1000) * 97 + operation * 16 + rank);
  }

  /// Plain, strided, or in a bucket: each rank chooses on its own.
  at::Tensor place(ProcessGroup& group, const at::Tensor& value) {
    const std::int64_t kind = delays_.below(3);
    if (kind == 0) return group.allocate_bucket(value.numel(), value.scalar_type()).copy_(value);
    if (kind == 1) return at::stack({value, value}, 1).select(1, 0);
    return value.clone();
  }

  void start(int operation) {
    // All ranks draw the same numbers, whether they are members or not.
    const std::size_t which = static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(groups_.size())));
    const auto dtype = draw_.one_of(kDtypes);
    const std::int64_t count = draw_.one_of<std::int64_t>({0, 1, 7, 1000, 9000, 150'001});
    const ReduceOp op = draw_.one_of(ops_for(dtype));
    const std::int64_t kind = draw_.below(7);
    const std::int64_t root_drawn = draw_.below(1000);
    ProcessGroup* group = groups_[which];
    if (group == nullptr) return;
    const int world = group->world_size();
    const int root = static_cast<int>(root_drawn % world);
    std::vector<at::Tensor> inputs;
    for (int r = 0; r < world; ++r) {
      inputs.push_back(values(dtype, count, operation, members_[which][static_cast<std::size_t>(r)]));
    }
    const at::Tensor own = inputs[static_cast<std::size_t>(group->rank())];
    const at::Tensor tensor = place(*group, own);
    const ElementRange part = shard_of(count, world, group->rank());
    Pending pending;
    pending.what =
        fmt::format("program {} operation {} kind {} of {} elements, group {}", seed_, operation, kind, count, which);
    switch (kind) {
      case 0:
        pending.work = group->all_reduce(tensor, {.op = op});
        pending.got = {tensor};
        pending.expected = {model(inputs, op)};
        break;
      case 1:
        pending.work = group->broadcast(tensor, root);
        pending.got = {tensor};
        pending.expected = {inputs[static_cast<std::size_t>(root)]};
        break;
      case 2:
        pending.work = group->all_gather(tensor, pending.got);
        pending.expected = inputs;
        break;
      case 3:
        pending.got = {at::empty({part.size()}, dtype)};
        pending.work = group->reduce_scatter(tensor, pending.got[0], {.op = op});
        pending.expected = {model(inputs, op).slice(0, part.begin, part.end)};
        break;
      case 4:
        pending.work = group->reduce(tensor, root, {.op = op});
        pending.got = {tensor};
        pending.expected = {group->rank() == root ? model(inputs, op) : own};
        break;
      case 5:
        pending.work = group->gather(tensor, pending.got, root);
        if (group->rank() == root) pending.expected = inputs;
        break;
      default: {
        const at::Tensor whole = place(*group, at::zeros({count}, dtype));
        pending.work = group->all_gather_into(inputs[0].slice(0, part.begin, part.end), whole);
        pending.got = {whole};
        pending.expected = {inputs[0]};
        kept_.push_back(inputs[0]);
      }
    }
    kept_.push_back(tensor);
    pending_.push_back(std::move(pending));
  }

  void finish_one() {
    if (pending_.empty()) return;
    const auto at = static_cast<std::ptrdiff_t>(delays_.below(static_cast<std::int64_t>(pending_.size())));
    Pending pending = std::move(pending_[static_cast<std::size_t>(at)]);
    pending_.erase(pending_.begin() + at);
    pending.work.wait();
    bool same = pending.got.size() == pending.expected.size();
    for (std::size_t i = 0; same && i < pending.got.size(); ++i) same = same_bits(pending.got[i], pending.expected[i]);
    if (!same && wrong_.empty()) wrong_ = fmt::format("rank {}: {}", job_.rank(), pending.what);
  }

  Job& job_;
  const std::uint64_t seed_;
  Draw draw_;
  Draw delays_;
  const std::vector<ProcessGroup*>& groups_;
  const std::vector<std::vector<int>>& members_;
  std::vector<Pending> pending_;
  std::vector<at::Tensor> kept_;
  std::string wrong_;
};

void run_programs(Job& job) {
  const auto number = [](const char* name, std::uint64_t otherwise) {
    const auto text = env::get(name);
    return text ? std::stoull(*text) : otherwise;
  };
  const std::uint64_t count = number("LOCKSTEP_PROGRAMS", 12);
  const std::uint64_t first = number("LOCKSTEP_PROGRAMS_SEED", 1);
  const auto parity = job.group().split(job.rank() % 2);
  const auto edge = job.group().split(job.rank() == 0 || job.rank() + 1 == job.world_size() ? 0 : -1, -job.rank());
  std::vector<std::vector<int>> members(4);
  for (int rank = 0; rank < job.world_size(); ++rank) {
    members[0].push_back(rank);
    members[1 + static_cast<std::size_t>(rank % 2)].push_back(rank);
  }
  members[3] = {job.world_size() - 1, 0};
  const bool odd = job.rank() % 2 == 1;
  const std::vector<ProcessGroup*> groups = {&job.group(), odd ? nullptr : parity.get(), odd ? parity.get() : nullptr,
                                             edge.get()};
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string wrong = Program(job, first + i, groups, members).run();
    ASSERT_EQ(wrong, "");
  }
  job.barrier();
}

class Programs : public ::testing::TestWithParam<std::tuple<std::string, std::vector<int>>> {};

TEST_P(Programs, OfRandomCollectivesGiveTheModelsBits) {
  const auto& [backend, hosts] = GetParam();
  SKIP_WITHOUT_UCX(backend);
  const int world = std::accumulate(hosts.begin(), hosts.end(), 0);
  run_ranks(current_test(), run_programs,
            {.world = world,
             .env = ::lockstep::testing::backend_variables(backend),
             .deadline = std::chrono::seconds(900),
             .host_sizes = hosts});
}

const auto kHosts =
    ::testing::Values(std::vector<int>{2}, std::vector<int>{3}, std::vector<int>{4}, std::vector<int>{5});
INSTANTIATE_TEST_SUITE_P(SharedMemory, Programs, ::testing::Combine(::testing::Values("shm"), kHosts));
INSTANTIATE_TEST_SUITE_P(Network, Programs,
                         ::testing::Combine(::testing::Values("tcp"), ::testing::Values(std::vector<int>{3})));
INSTANTIATE_TEST_SUITE_P(Ucx, Programs,
                         ::testing::Combine(::testing::Values("ucx"), ::testing::Values(std::vector<int>{3})));
INSTANTIATE_TEST_SUITE_P(UcxHierarchy, Programs,
                         ::testing::Combine(::testing::Values("shm+ucx"), ::testing::Values(std::vector<int>{3, 2})));
INSTANTIATE_TEST_SUITE_P(Hierarchy, Programs,
                         ::testing::Combine(::testing::Values("auto"),
                                            ::testing::Values(std::vector<int>{2, 2}, std::vector<int>{3, 2})));

}  // namespace many_ranks_test
}  // namespace lockstep::comm
