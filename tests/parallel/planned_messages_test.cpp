// SPDX-License-Identifier: Apache-2.0
// The plan's messages must equal comm's, since the two modules do not depend on each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "comm/network/flat_backend.h"
#include "simulate/collective_phases.h"

namespace lockstep::parallel {
namespace planned_messages_test {

using simulate::Among;
using simulate::Call;
using simulate::CallKind;
using simulate::Cluster;
using simulate::Phase;

/// Exchanges in order: the distance of a message around the ring (0: one message to each rank), and its bytes.
using Exchanges = std::vector<std::pair<int, std::int64_t>>;

/// Rank 0 of `ranks` with equal data: it receives what it sends.
class RecordingTransport final : public comm::Transport {
 public:
  explicit RecordingTransport(int ranks) { world_.size = ranks; }

  bool reports_wrong_lengths() const noexcept override { return true; }
  const comm::World& world() const override { return world_; }

  void exchange(const std::vector<comm::Message>& sends, const std::vector<comm::Message>& receives,
                const comm::Collective& /*collective*/) override {
    std::map<int, std::int64_t> sent;
    for (std::size_t i = 0; i < sends.size(); ++i) {
      sent[sends[i].rank] += static_cast<std::int64_t>(sends[i].bytes);
      std::memcpy(receives[i].data, sends[i].data, std::min(sends[i].bytes, receives[i].bytes));
    }
    const auto& [rank, bytes] = *sent.begin();
    for (const auto& other : sent) EXPECT_EQ(other.second, bytes) << other.first;
    const bool is_to_each = static_cast<int>(sent.size()) == world_.size - 1;
    EXPECT_TRUE(is_to_each || sent.size() == 1);
    exchanges.emplace_back(is_to_each ? 0 : world_.size - rank, bytes);
  }

  Exchanges exchanges;

 private:
  comm::World world_;
};

class RecordingNetwork final : public comm::Network {
 public:
  explicit RecordingNetwork(std::shared_ptr<comm::Transport> transport) : transport_(std::move(transport)) {}

  std::string name() const override { return "recording"; }
  const comm::World& world() const override { return transport_->world(); }
  std::shared_ptr<comm::Transport> connect(const std::string& /*label*/) override { return transport_; }
  void report_death(int /*suspect*/) noexcept override {}
  void abort() noexcept override {}

 private:
  const std::shared_ptr<comm::Transport> transport_;
};

/// comm's exchanges for an all_reduce of `bytes`; with 0 bytes, for a barrier.
Exchanges made(int ranks, std::int64_t bytes) {
  const auto transport = std::make_shared<RecordingTransport>(ranks);
  comm::FlatBackend backend(std::make_shared<RecordingNetwork>(transport));
  std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float));
  auto* const data = reinterpret_cast<std::byte*>(values.data());
  comm::Collective collective{.bytes = values.size() * sizeof(float), .item_bytes = sizeof(float), .data = data};
  collective.output = data;
  collective.call.numel = static_cast<std::int64_t>(values.size());
  collective.call.dtype = static_cast<std::int8_t>(c10::kFloat);
  if (bytes == 0) {
    backend.meet(collective);
  } else {
    collective.call.kind = comm::Kind::kAllReduce;
    backend.reduce(collective);
  }
  return transport->exchanges;
}

Exchanges planned(const Call& call, int ranks) {
  Exchanges exchanges;
  for (const Phase& phase : simulate::phases_of(call, Cluster{.machines = ranks})) {
    EXPECT_EQ(phase.among, Among::kAll);
    exchanges.emplace_back(phase.distance, phase.bytes);
  }
  return exchanges;
}

TEST(PlannedMessages, AreThoseInWhichRanksCompareTheirCalls) {
  for (const int ranks : {2, 8, 9, 16, 100, 1024}) {
    EXPECT_EQ(planned({.kind = CallKind::kBarrier}, ranks), made(ranks, 0)) << ranks;
  }
}

TEST(PlannedMessages, AreThoseOfASum) {
  constexpr std::int64_t kOnePass = std::int64_t{32} << 10;
  for (const int ranks : {2, 8, 9, 100}) {
    const std::int64_t row_for_each = std::int64_t{4} * ranks;
    const std::int64_t large = (kOnePass / row_for_each + 1) * row_for_each;
    for (const std::int64_t bytes : {std::int64_t{8}, kOnePass, large}) {
      EXPECT_EQ(planned({.bytes = bytes}, ranks), made(ranks, bytes)) << bytes << " bytes, " << ranks << " ranks";
    }
  }
}

}  // namespace planned_messages_test
}  // namespace lockstep::parallel
