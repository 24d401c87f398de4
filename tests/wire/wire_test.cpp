// SPDX-License-Identifier: Apache-2.0
// Connections between ranks: how they are opened or rejected, and messages in pieces of every size.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "wire/connection.h"
#include "wire/listener.h"
#include "wire/patient_wait.h"
#include "wire/sockets.h"
#include "wire/stream.h"

namespace lockstep::wire {
namespace {

using ::testing::HasSubstr;
using Step = Connection::Step;

const std::string kKey = wire_key("a token that both ranks know", "seed");
const std::string kListener(kNonceBytes, 'L');
const Route kRoute{"10.0.0.1 40000", "10.0.0.2 50000"};

Hello hello_from(std::uint32_t from, bool is_encrypted) {
  return {.is_encrypted = is_encrypted, .from = from, .to = 0, .circle = 7, .nonce = std::string(kNonceBytes, 'c')};
}

// The hello.

TEST(Hello, IsReadByWhoKnowsTheKey) {
  const Hello hello = hello_from(3, true);
  EXPECT_EQ(read_hello(write_hello(hello, kKey, kListener), kKey, kListener), hello);
}

TEST(Hello, OfAnotherKeyOrForAnotherListenerIsNone) {
  const std::string words = write_hello(hello_from(3, true), kKey, kListener);
  EXPECT_FALSE(read_hello(words, wire_key("another token", "seed"), kListener));
  EXPECT_FALSE(read_hello(words, wire_key("a token that both ranks know", "another run"), kListener));
  EXPECT_FALSE(read_hello(words, kKey, std::string(kNonceBytes, 'M')));
}

TEST(Hello, WithAnyBitFlippedOrOfAnotherLengthIsNone) {
  const std::string words = write_hello(hello_from(3, false), kKey, kListener);
  for (std::size_t bit = 0; bit < 8 * words.size(); ++bit) {
    std::string flipped = words;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(read_hello(flipped, kKey, kListener)) << "bit " << bit;
  }
  EXPECT_FALSE(read_hello(words + "x", kKey, kListener));
  EXPECT_FALSE(read_hello(words.substr(1), kKey, kListener));
  EXPECT_FALSE(read_hello("", kKey, kListener));
}

TEST(Hello, GivesEachConnectionAnotherTlsKey) {
  Hello other = hello_from(3, true);
  other.nonce[0] = 'd';
  EXPECT_NE(tls_key_of(kKey, write_hello(hello_from(3, true), kKey, kListener), kListener),
            tls_key_of(kKey, write_hello(other, kKey, kListener), kListener));
}

// The opening without encryption, in every order of arrival.

struct Ends {
  Opening caller;
  Opening called;
};

Ends ends_with(const std::string& key_of_caller, const std::string& key_of_called, const Route& route_of_called) {
  const Hello hello = hello_from(3, false);
  Opening caller = Opening::call({key_of_caller, kListener, kRoute}, hello);
  const std::string words = caller.words();
  return {std::move(caller), Opening::answer({key_of_called, kListener, route_of_called}, hello, words)};
}

/// Hands over `words` in pieces; the bits of `cuts` say where each ends.
void hand_over(Opening& to, const std::string& words, std::uint64_t cuts) {
  std::size_t begin = 0;
  for (std::size_t at = 1; at <= words.size(); ++at) {
    if (at < words.size() && ((cuts >> (at % 64)) & 1U) == 0) continue;
    EXPECT_EQ(to.arrived(std::string_view(words).substr(begin, at - begin)), at - begin);
    begin = at;
  }
}

TEST(Opening, EndsOpenOnBothSidesHoweverTheBytesAreCut) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    Ends ends = ends_with(kKey, kKey, kRoute);
    hand_over(ends.caller, ends.called.words(), trial == 0 ? ~std::uint64_t{0} : random());
    ASSERT_EQ(ends.caller.step(), Opening::Step::kOpen);
    EXPECT_EQ(ends.called.step(), Opening::Step::kUnderWay);
    hand_over(ends.called, ends.caller.words(), random());
    ASSERT_EQ(ends.called.step(), Opening::Step::kOpen);
    EXPECT_EQ(ends.caller.words() + ends.called.words(), "");
  }
}

TEST(Opening, LeavesTheFirstMessageBehindItAlone) {
  Ends ends = ends_with(kKey, kKey, kRoute);
  hand_over(ends.caller, ends.called.words(), 0);
  const std::string words = ends.caller.words() + "a message";
  EXPECT_EQ(ends.called.arrived(words), kProofBytes);
  EXPECT_EQ(ends.called.step(), Opening::Step::kOpen);
  EXPECT_EQ(ends.called.arrived("a message"), 0);
}

TEST(Opening, IsRefusedByACallerWhoseRouteTheOtherEndDoesNotSee) {
  Ends ends = ends_with(kKey, kKey, {"10.0.0.9 40000", kRoute.called});  // a third program relays
  hand_over(ends.caller, ends.called.words(), 0);
  EXPECT_EQ(ends.caller.step(), Opening::Step::kRefused);
  EXPECT_EQ(ends.caller.words(), "");
}

TEST(Opening, IsRefusedByEitherEndWhereTheOtherDoesNotKnowTheKey) {
  Ends ends = ends_with(kKey, "no key", kRoute);
  hand_over(ends.caller, ends.called.words(), 0);
  EXPECT_EQ(ends.caller.step(), Opening::Step::kRefused);
  Ends others = ends_with(kKey, kKey, kRoute);
  hand_over(others.called, std::string(kProofBytes, 'x'), 0);
  EXPECT_EQ(others.called.step(), Opening::Step::kRefused);
}

TEST(Opening, DoesNotTakeTheProofOfAnotherConnection) {
  Ends first = ends_with(kKey, kKey, kRoute);
  hand_over(first.caller, first.called.words(), 0);
  const std::string proof = first.caller.words();
  Ends second = ends_with(kKey, kKey, kRoute);
  (void)second.called.words();
  hand_over(second.called, proof, 0);
  EXPECT_EQ(second.called.step(), Opening::Step::kRefused);
}

TEST(Opening, DoesNotTakeItsOwnProofBack) {
  Ends ends = ends_with(kKey, kKey, kRoute);
  const std::string own = ends.called.words();
  hand_over(ends.called, own.substr(kNonceBytes), 0);
  EXPECT_EQ(ends.called.step(), Opening::Step::kRefused);
}

// Connections.

struct Sockets {
  UniqueFd caller;
  UniqueFd called;
};

Sockets connected() {
  const UniqueFd listening = listen_at("127.0.0.1");
  UniqueFd caller = begin_to_connect(own_end(listening.get()));
  pollfd ready{listening.get(), POLLIN, 0};
  (void)::poll(&ready, 1, 5000);
  UniqueFd called(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  return {std::move(caller), std::move(called)};
}

struct Pair {
  std::unique_ptr<Connection> caller;
  std::unique_ptr<Connection> called;
};

Pair pair_of(bool is_encrypted, const std::string& key_of_called = kKey) {
  Sockets sockets = connected();
  const Hello hello = hello_from(3, is_encrypted);
  const Route route = route_of(sockets.caller.get(), End::kCaller);
  Opening caller = Opening::call({kKey, kListener, route}, hello);
  const std::string words = write_hello(hello, kKey, kListener);
  Opening called =
      Opening::answer({key_of_called, kListener, route_of(sockets.called.get(), End::kCalled)}, hello, words);
  Pair pair;
  pair.caller = std::make_unique<Connection>(std::move(sockets.caller), std::move(caller));
  // The listener reads the hello before it hands the connection over.
  (void)pair.caller->open();
  std::vector<std::byte> read(kHelloBytes);
  while (receive_some(sockets.called.get(), {}, {read.data(), read.size()}) == 0) continue;
  pair.called = std::make_unique<Connection>(std::move(sockets.called), std::move(called));
  return pair;
}

bool open_both(Pair& pair) {
  for (int tries = 0; tries < 100'000; ++tries) {
    const Step one = pair.caller->open();
    const Step two = pair.called->open();
    if (one == Step::kOpen && two == Step::kOpen) return true;
    if (one == Step::kRefused || two == Step::kRefused) return false;
  }
  return false;
}

std::vector<std::byte> bytes_of(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

void run_until_done(Pair& pair) {
  while (!pair.caller->is_sent() || !pair.called->is_received() || !pair.called->is_sent() ||
         !pair.caller->is_received()) {
    (void)pair.caller->step();
    (void)pair.called->step();
  }
}

class Connections : public ::testing::TestWithParam<bool> {};

TEST_P(Connections, CarryMessagesOfEverySizeInBothDirections) {
  Pair pair = pair_of(GetParam());
  ASSERT_TRUE(open_both(pair));
  const std::vector<std::size_t> sizes{1, 40, 4096, 16, 16'384, 16'383, 70'000, 1 << 20, 3, 9'000'001};
  std::vector<std::vector<std::byte>> there;
  std::vector<std::vector<std::byte>> back;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    there.push_back(bytes_of(sizes[i], static_cast<unsigned>(i)));
    back.push_back(bytes_of(sizes[sizes.size() - 1 - i], static_cast<unsigned>(100 + i)));
  }
  std::vector<std::vector<std::byte>> got_there(sizes.size());
  std::vector<std::vector<std::byte>> got_back(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    got_there[i].resize(there[i].size());
    got_back[i].resize(back[i].size());
    pair.caller->send(there[i].data(), there[i].size());
    pair.called->expect(got_there[i].data(), got_there[i].size());
    pair.called->send(back[i].data(), back[i].size());
    pair.caller->expect(got_back[i].data(), got_back[i].size());
  }
  run_until_done(pair);
  EXPECT_EQ(got_there, there);
  EXPECT_EQ(got_back, back);
}

TEST_P(Connections, NameAMessageOfAnotherLengthAndHandOverThoseBeforeIt) {
  Pair pair = pair_of(GetParam());
  ASSERT_TRUE(open_both(pair));
  const auto words = bytes_of(40, 1);
  pair.caller->send(words.data(), 40);
  pair.caller->send(words.data(), 24);
  std::vector<std::byte> first(40);
  std::vector<std::byte> second(32);
  pair.called->expect(first.data(), first.size());
  pair.called->expect(second.data(), second.size());
  EXPECT_THROW(run_until_done(pair), WrongLength);
  EXPECT_EQ(first, words);
  EXPECT_EQ(second, std::vector<std::byte>(32));
}

TEST_P(Connections, ThatTheOtherEndClosesAreLost) {
  Pair pair = pair_of(GetParam());
  ASSERT_TRUE(open_both(pair));
  std::vector<std::byte> room(8);
  pair.called->expect(room.data(), room.size());
  pair.caller.reset();
  EXPECT_THROW(
      {
        for (int tries = 0; tries < 100'000; ++tries) (void)pair.called->step();
      },
      ConnectionLost);
}

TEST_P(Connections, ThatTheOtherEndClosesHaveHandedOverWhatItSaidBefore) {
  Pair pair = pair_of(GetParam());
  ASSERT_TRUE(open_both(pair));
  const auto words = bytes_of(5000, 1);
  pair.caller->send(words.data(), words.size());
  while (!pair.caller->is_sent()) (void)pair.caller->step();
  pair.caller.reset();
  std::vector<std::byte> got(words.size());
  pair.called->expect(got.data(), got.size());
  while (!pair.called->is_received()) (void)pair.called->step();
  EXPECT_EQ(got, words);
}

TEST_P(Connections, WhereOneEndLacksTheKeyNeverOpen) {
  Pair pair = pair_of(GetParam(), "another key");
  bool is_open = false;
  try {
    is_open = open_both(pair);
  } catch (const ConnectionLost& lost) {
    EXPECT_THAT(lost.what(), HasSubstr(":"));
  }
  EXPECT_FALSE(is_open);
}

/// Returns the memory of this process, in bytes.
std::size_t resident_bytes() {
  std::size_t all = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(EncryptedStream, NeedsNoMoreMemoryForALongMessageToASlowReader) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd from(ends[0]);
  const UniqueFd to(ends[1]);
  const int buffer = 64 << 10;  // the socket never accepts all that a sender has gathered
  ASSERT_EQ(::setsockopt(from.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer), 0);
  const auto sender = make_tls_stream(from.get(), End::kCaller, std::string(32, 'k'));
  const auto reader = make_tls_stream(to.get(), End::kCalled, std::string(32, 'k'));
  bool is_open = false;
  for (int tries = 0; tries < 1000 && !is_open; ++tries) {
    const bool is_called = sender->shake_hands();
    is_open = reader->shake_hands() && is_called;
  }
  ASSERT_TRUE(is_open);
  const auto words = bytes_of(256 << 10, 1);
  std::vector<std::byte> room(16 << 10);
  std::size_t before = 0;
  for (std::size_t read = 0; read < std::size_t{64} << 20;) {
    (void)sender->write({{words.data(), words.size()}});
    (void)sender->flush();
    read += reader->read({room.data(), room.size()}, {});
    if (before == 0 && read >= std::size_t{4} << 20) before = resident_bytes();
  }
  EXPECT_LT(resident_bytes(), before + (std::size_t{16} << 20));
}

INSTANTIATE_TEST_SUITE_P(Wire, Connections, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Encrypted" : "Plain"; });

// The listener.

class Listening : public ::testing::Test {
 protected:
  [[nodiscard]] UniqueFd call_with(const std::string& words) const {
    UniqueFd fd = begin_to_connect(listener_.endpoint());
    pollfd ready{fd.get(), POLLOUT, 0};
    (void)::poll(&ready, 1, 5000);
    (void)!::write(fd.get(), words.data(), words.size());
    return fd;
  }

  /// True once the peer has closed the connection.
  [[nodiscard]] static bool is_closed(const UniqueFd& fd) {
    pollfd ready{fd.get(), POLLIN, 0};
    if (::poll(&ready, 1, 5000) != 1) return false;
    char byte = 0;
    return ::read(fd.get(), &byte, 1) <= 0;
  }

  std::optional<Caller> wait_for(const Wanted& wanted) {
    for (int tries = 0; tries < 5000; ++tries) {
      if (auto caller = listener_.take(wanted)) return caller;
      pollfd ready{wakeup_->fd(), POLLIN, 0};
      (void)::poll(&ready, 1, 1);
    }
    return std::nullopt;
  }

  void SetUp() override { listener_.watch(7, wakeup_); }

  Listener listener_{{.address = "127.0.0.1", .key = kKey, .nonce = kListener, .rank = 0, .size = 4}};
  std::shared_ptr<Wakeup> wakeup_ = std::make_shared<Wakeup>();
};

TEST_F(Listening, HandsOverARankThatKnowsTheKey) {
  const UniqueFd fd = call_with(write_hello(hello_from(3, true), kKey, kListener));
  const auto caller = wait_for({7, 3});
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->hello, hello_from(3, true));
}

TEST_F(Listening, TakesAHelloInPieces) {
  const std::string words = write_hello(hello_from(2, true), kKey, kListener);
  const UniqueFd fd = call_with(words.substr(0, 11));
  EXPECT_FALSE(listener_.take({7, 2}));
  (void)!::write(fd.get(), words.data() + 11, words.size() - 11);
  EXPECT_TRUE(wait_for({7, 2}));
}

TEST_F(Listening, ClosesAConnectionThatSaysTheSameAgain) {
  const std::string words = write_hello(hello_from(3, true), kKey, kListener);
  const UniqueFd first = call_with(words);
  ASSERT_TRUE(wait_for({7, 3}));
  EXPECT_TRUE(is_closed(call_with(words)));
  EXPECT_FALSE(listener_.take({7, 3}));
}

TEST_F(Listening, ClosesStrangersAndRanksThatDoNotExist) {
  EXPECT_TRUE(is_closed(call_with(std::string(kHelloBytes, 'x'))));
  EXPECT_TRUE(is_closed(call_with(write_hello(hello_from(3, true), "no key", kListener))));
  EXPECT_TRUE(is_closed(call_with(write_hello(hello_from(9, true), kKey, kListener))));
  EXPECT_TRUE(is_closed(call_with(write_hello(hello_from(1, false), kKey, kListener))));
}

TEST_F(Listening, StaysOpenForRanksWhileManyStrangersStaySilent) {
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(call_with(""));
  const UniqueFd fd = call_with(write_hello(hello_from(3, true), kKey, kListener));
  EXPECT_TRUE(wait_for({7, 3}));
}

// Waiting.

TEST(Waiting, LooksAgainAsLongAsThatPaysAndThenSleepsAtOnce) {
  WaitHabit habit;
  for (int use = 0; use < 20; ++use) {
    PatientWait wait(habit);
    EXPECT_TRUE(wait.spin());
    wait.moved();
  }
  int waits = 0;
  while (habit.credit > 0 && waits < 100) {
    PatientWait wait(habit);
    while (wait.spin()) continue;
    ++waits;
  }
  EXPECT_LT(waits, 10);
  PatientWait wait(habit);
  EXPECT_FALSE(wait.spin());
}

}  // namespace
}  // namespace lockstep::wire
