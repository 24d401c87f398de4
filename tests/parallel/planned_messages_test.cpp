// SPDX-License-Identifier: Apache-2.0
// The plan's messages are those of comm: two modules that do not know each other.
#include <gtest/gtest.h>

#include "comm/core/collective.h"
#include "comm/core/exchange_reduce.h"
#include "comm/core/gather.h"
#include "schedule/collective_phases.h"

namespace lockstep::parallel {
namespace planned_messages_test {

using schedule::Among;
using schedule::Call;
using schedule::Cluster;
using schedule::Phase;

/// The rounds of comm in which `ranks` ranks tell each other `bytes`, as the plan writes them.
std::vector<std::pair<int, std::int64_t>> rounds_of(int ranks, std::int64_t bytes) {
  comm::Ring ring{.ranks = std::vector<int>(static_cast<std::size_t>(ranks))};
  if (!comm::is_large(ring)) return {{0, bytes}};
  std::vector<std::pair<int, std::int64_t>> rounds;
  for (const comm::GatherRound& round : comm::gather_rounds(0, ranks)) {
    rounds.emplace_back(ranks - round.to, round.count * bytes);
    EXPECT_EQ(ranks - round.to, round.from);
  }
  return rounds;
}

std::vector<std::pair<int, std::int64_t>> planned(const Call& call, int ranks) {
  std::vector<std::pair<int, std::int64_t>> rounds;
  for (const Phase& phase : schedule::phases_of(call, Cluster{.machines = ranks})) {
    EXPECT_EQ(phase.among, Among::kAll);
    rounds.emplace_back(phase.distance, phase.bytes);
  }
  return rounds;
}

TEST(PlannedMessages, AreThoseInWhichRanksCompareTheirCalls) {
  for (const int ranks : {2, 8, 9, 16, 100, 1024}) {
    EXPECT_EQ(planned({.kind = schedule::CallKind::kBarrier}, ranks), rounds_of(ranks, sizeof(comm::Descriptor)))
        << ranks;
  }
}

TEST(PlannedMessages, AreThoseOfASumThatIsOnePass) {
  for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{32} << 10, (std::int64_t{32} << 10) + 4}) {
    const bool one_pass = comm::is_one_pass(static_cast<std::size_t>(bytes));
    for (const int ranks : {2, 8, 9, 100}) {
      auto expected = rounds_of(ranks, sizeof(comm::Descriptor));
      if (one_pass) {
        const auto sums = rounds_of(ranks, bytes);
        expected.insert(expected.end(), sums.begin(), sums.end());
      } else {
        expected.insert(expected.end(), 2, {0, (bytes + ranks - 1) / ranks});
      }
      EXPECT_EQ(planned({.bytes = bytes}, ranks), expected) << bytes << " bytes, " << ranks << " ranks";
    }
  }
}

}  // namespace planned_messages_test
}  // namespace lockstep::parallel
