// SPDX-License-Identifier: Apache-2.0
// Shared memory with ranks as threads: the handshake and the protocol.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "comm/backends/shm/connect.h"
#include "comm/backends/shm/door.h"
#include "comm/backends/shm/shm_backend.h"
#include "comm/core/moves.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace shm_test {

using ::testing::HasSubstr;

// The handshake over the ranks' socket, with ranks as threads, among other processes of the same user.

constexpr auto kLong = std::chrono::seconds(60);

class ShmConnect : public ::testing::Test {
 protected:
  World rank(int number, int size = 2) const {
    World world{.rank = number, .size = size};
    world.store = store_;
    world.prefix = "group/";
    return world;
  }

  std::future<ShmConnection> start(int number) const {
    return std::async(std::launch::async, [world = rank(number)] { return connect_shm(world, kLong); });
  }

  // A stranger that connects and sends only the bytes `words`.
  UniqueFd stranger(const std::string& words = "") const {
    const std::string told = store_->get("group/shm/address", kLong);
    socklen_t size = 0;
    const sockaddr_un address = abstract_address(told.substr(0, told.find(' ')), size);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    (void)!::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
    return fd;
  }

  std::shared_ptr<Store> store_ = make_local_store();
};

TEST_F(ShmConnect, SilentStrangersDelayNobody) {
  auto first = start(0);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 10; ++i) strangers.push_back(stranger(i % 2 == 0 ? "" : "half a hello"));
  const TimePoint before = SystemClock::instance().now();
  auto second = start(1);
  EXPECT_EQ(first.get().peers.at(0).rank, 1);
  EXPECT_EQ(second.get().peers.at(0).rank, 0);
  EXPECT_LT(SystemClock::instance().now() - before, std::chrono::seconds(2)) << "one stranger cost 2 s";
}

TEST_F(ShmConnect, ManyStrangersAreOneLineAndKeepNoRankOut) {
  ::testing::internal::CaptureStderr();
  auto first = start(0);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(stranger(std::string(sizeof(Hello), 'x')));
  for (int i = 0; i < 150; ++i) strangers.push_back(stranger());
  auto second = start(1);
  EXPECT_EQ(first.get().peers.at(0).rank, 1);
  (void)second.get();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("to the ranks' socket w"));
  std::size_t lines = 0;
  for (auto at = said.find("warn:"); at != std::string::npos; at = said.find("warn:", at + 1)) ++lines;
  EXPECT_LE(lines, 3U) << said;
}

TEST_F(ShmConnect, AnAddressThatIsTornIsAnErrorOfEveryRank) {
  store_->set("group/shm/address", std::string(500, 'x') + " " + std::string(64, 'n'));
  store_->set("group/shm/vote/0", "yes");
  EXPECT_THROW((void)connect_shm(rank(1), kLong), ResourceError);
  EXPECT_THAT(store_->get("group/shm/vote/1", kLong), HasSubstr("has 500 bytes"));
}

// The shared-memory protocol with ranks as threads on one mapping. ThreadSanitizer sees races only between threads; the
// code is the same as in processes, including its waits and wake-ups.

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
  call.call.kind = kind;
  call.call.sequence = sequence;
  call.call.numel = static_cast<std::int64_t>(data.size());
  call.call.dtype = static_cast<std::int8_t>(c10::ScalarType::Float);
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
        spread.call.root = world - 1;
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
      call.call.numel = bucket.numel();
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

}  // namespace shm_test
}  // namespace lockstep::comm
