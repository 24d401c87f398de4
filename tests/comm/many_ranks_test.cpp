// SPDX-License-Identifier: Apache-2.0
// Many more ranks than processors: forks of one process that has loaded libtorch, on one host and on several (which
// share memory only inside each). MANY_RANKS=HOSTSxRANKS chooses another shape, and MANY_RANKS_RESULTS=FILE gets a line
// of JSON with what it cost: scripts/measure/many_ranks.py draws the curve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/process_group.h"
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
  const auto of = [](const timeval& time) {
    return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

// KiB of memory, with shared pages divided among those who have them.
long proportional_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    long size = 0;
    if (word == "Pss:" && file >> size) return size;
  }
  return 0;
}

// What a rank says of itself on its last line.
struct Figures {
  double formed = 0;        // microseconds since boot at which its group was formed
  double wall_us = 0;       // of an all-reduce of 4 KiB
  double processor_us = 0;  // the same, of the processor
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
  for (int round = -2; round < kRounds; ++round) {  // two rounds warm up
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
  job.barrier();  // memory is counted while all ranks live
  std::printf("%s", own.line().c_str());
}

struct Shape {
  int hosts = 8;
  int ranks = 8;  // of each host
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

// More hosts than tell each other everything at once: 12 and 9, neither a power of two.
void reduce_all_dtypes(Job& job) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble, at::kInt}) {
    for (const std::int64_t count : {1, 1000, 50'000}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        std::vector<at::Tensor> inputs;
        for (int rank = 0; rank < job.world_size(); ++rank) inputs.push_back(comm::random_values(dtype, count, rank));
        const at::Tensor mine = inputs[static_cast<std::size_t>(job.rank())].clone();
        job.group().all_reduce(mine, {.op = op}).wait();
        ASSERT_TRUE(comm::same_bits(mine, comm::model(inputs, op))) << dtype << ", " << count << " elements";
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
