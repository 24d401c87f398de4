// SPDX-License-Identifier: Apache-2.0
// Random programs of collectives: kind, operation, dtype, size, place, group, order of waiting and each rank's delays
// are drawn; every result is compared with a serial model. LOCKSTEP_PROGRAMS says how many
// (scripts/trials/trial collective_programs runs many), LOCKSTEP_PROGRAMS_SEED where to begin.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>
#include <random>
#include <thread>

#include "lockstep/base/env.h"
#include "support/run_ranks.h"
#include "support/tree_model.h"

namespace lockstep::comm {
namespace programs_test {

using ::lockstep::testing::current_test;
using ::lockstep::testing::run_ranks;

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

/// A collective under way, and what is to be seen once it is done.
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

  /// What differs from the model; empty where nothing does.
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

  /// Plain, strided, or in a bucket: a matter of each rank alone.
  at::Tensor place(ProcessGroup& group, const at::Tensor& value) {
    const std::int64_t kind = delays_.below(3);
    if (kind == 0) return group.allocate_bucket(value.numel(), value.scalar_type()).copy_(value);
    if (kind == 1) return at::stack({value, value}, 1).select(1, 0);
    return value.clone();
  }

  void start(int operation) {
    // Everybody draws the same, whether it is a member or not.
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
    const at::Tensor mine = inputs[static_cast<std::size_t>(group->rank())];
    const at::Tensor tensor = place(*group, mine);
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
        pending.expected = {group->rank() == root ? model(inputs, op) : mine};
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
  const int world = std::accumulate(hosts.begin(), hosts.end(), 0);
  run_ranks(current_test(), run_programs,
            {.world = world,
             .env = {{"LOCKSTEP_BACKEND", backend}},
             .deadline = std::chrono::seconds(900),
             .host_sizes = hosts});
}

const auto kHosts =
    ::testing::Values(std::vector<int>{2}, std::vector<int>{3}, std::vector<int>{4}, std::vector<int>{5});
INSTANTIATE_TEST_SUITE_P(SharedMemory, Programs, ::testing::Combine(::testing::Values("shm"), kHosts));
INSTANTIATE_TEST_SUITE_P(Network, Programs,
                         ::testing::Combine(::testing::Values("gloo"), ::testing::Values(std::vector<int>{3})));
INSTANTIATE_TEST_SUITE_P(Hierarchy, Programs,
                         ::testing::Combine(::testing::Values("auto"),
                                            ::testing::Values(std::vector<int>{2, 2}, std::vector<int>{3, 2})));

}  // namespace programs_test
}  // namespace lockstep::comm
