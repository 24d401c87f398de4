// SPDX-License-Identifier: Apache-2.0
// The shared-memory protocol with ranks as threads on one mapping. A thread sanitizer sees no race between processes,
// but it sees these: the code is the one that processes run, waits and wake-ups included.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "comm/backends/shm/shm_backend.h"
#include "comm/core/moves.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace shm_threads_test {

class ThreadRanks {
 public:
  explicit ThreadRanks(int world) : segment_(Segment::create(world)) {
    for (int rank = 0; rank < world; ++rank) {
      const World place{.rank = rank, .size = world};
      ShmConnection connection;
      connection.segment = rank == 0 ? segment_ : Segment::share(*segment_, rank);
      backends_.push_back(std::make_unique<ShmBackend>(std::move(connection), place));
    }
  }

  /// Runs `body` on every rank at once.
  void run(const std::function<void(ShmBackend&, int rank)>& body) {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < backends_.size(); ++rank) {
      threads.emplace_back([&, rank] { body(*backends_[rank], static_cast<int>(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::shared_ptr<Segment> segment_;
  std::vector<std::unique_ptr<ShmBackend>> backends_;
};

Collective collective(Kind kind, std::uint64_t sequence, std::vector<float>& data) {
  Collective call;
  call.what.kind = kind;
  call.what.sequence = sequence;
  call.what.numel = static_cast<std::int64_t>(data.size());
  call.what.dtype = static_cast<std::int8_t>(c10::ScalarType::Float);
  call.item_bytes = sizeof(float);
  call.bytes = data.size() * sizeof(float);
  call.data = reinterpret_cast<const std::byte*>(data.data());
  call.output = reinterpret_cast<std::byte*>(data.data());
  call.timeout = std::chrono::seconds(60);
  call.deadline = AwakeClock::instance().now() + call.timeout;
  call.caller_waits = sequence % 2 == 0;
  return call;
}

class ShmThreads : public ::testing::TestWithParam<int> {};

TEST_P(ShmThreads, ReduceAndMoveWithoutARace) {
  const int world = GetParam();
  ThreadRanks ranks(world);
  ranks.run([&](ShmBackend& backend, int rank) {
    std::uint64_t sequence = 0;
    for (const std::size_t size : {3U, 1000U, 200'000U, 400'001U, 5U}) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<float> data(size, static_cast<float>(rank + 1));
        backend.run(collective(Kind::kAllReduce, ++sequence, data));
        const float sum = static_cast<float>(world * (world + 1) / 2);
        EXPECT_EQ(data.front(), sum);
        EXPECT_EQ(data.back(), sum);
        data.assign(size, static_cast<float>(rank));
        Collective spread = collective(Kind::kBroadcast, ++sequence, data);
        spread.what.root = world - 1;
        backend.run(spread);
        EXPECT_EQ(data.back(), static_cast<float>(world - 1));
        backend.run(collective(Kind::kBarrier, ++sequence, data));
      }
    }
  });
}

TEST_P(ShmThreads, ReduceBucketsInPlaceWithoutARace) {
  const int world = GetParam();
  ThreadRanks ranks(world);
  ranks.run([&](ShmBackend& backend, int rank) {
    const at::Tensor bucket = backend.allocate_bucket(300'000, at::kFloat);
    auto* values = bucket.data_ptr<float>();
    std::vector<float> none;
    for (std::uint64_t sequence = 1; sequence < 8; ++sequence) {
      std::fill_n(values, bucket.numel(), static_cast<float>(rank));
      Collective call = collective(Kind::kAllReduce, sequence, none);
      call.what.numel = bucket.numel();
      call.bytes = bucket.nbytes();
      call.output = reinterpret_cast<std::byte*>(values);
      call.data = call.output;
      backend.run(call);
      EXPECT_EQ(values[0], static_cast<float>(world * (world - 1) / 2));
      EXPECT_EQ(values[299'999], values[0]);
    }
  });
}

TEST_P(ShmThreads, PassMessagesWithoutARace) {
  const int world = GetParam();
  ThreadRanks ranks(world);
  ranks.run([&](ShmBackend& backend, int rank) {
    const auto next = (rank + 1) % world;
    const auto before = (rank + world - 1) % world;
    const auto out = backend.open_channel(next, true);
    const auto in = backend.open_channel(before, false);
    std::thread sender([&] {
      for (std::uint64_t sequence = 1; sequence < 6; ++sequence) {
        std::vector<float> data(sequence * 40'000, static_cast<float>(rank));
        out->run(collective(Kind::kSend, sequence, data));
      }
    });
    for (std::uint64_t sequence = 1; sequence < 6; ++sequence) {
      std::vector<float> data(sequence * 40'000);
      in->run(collective(Kind::kRecv, sequence, data));
      EXPECT_EQ(data.front(), static_cast<float>(before));
      EXPECT_EQ(data.back(), static_cast<float>(before));
    }
    sender.join();
  });
}

TEST_P(ShmThreads, EndTogetherWhenOneAborts) {
  const int world = GetParam();
  ThreadRanks ranks(world);
  std::atomic<int> failed{0};
  ranks.run([&](ShmBackend& backend, int rank) {
    std::vector<float> data(100);
    backend.run(collective(Kind::kAllReduce, 1, data));
    if (rank == 0) return backend.abort("enough");
    try {
      backend.run(collective(Kind::kAllReduce, 2, data));
    } catch (const PeerError&) {
      ++failed;
    }
  });
  EXPECT_EQ(failed, world - 1);
}

INSTANTIATE_TEST_SUITE_P(Worlds, ShmThreads, ::testing::Values(2, 3, 5));

}  // namespace shm_threads_test
}  // namespace lockstep::comm
