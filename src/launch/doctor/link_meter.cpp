// SPDX-License-Identifier: Apache-2.0
// The protocol: each command is a 64-byte message (both hosts have the same byte order, since Lockstep supports only
// little-endian hosts). A ping is echoed. A flush is answered once everything before it has been read. A data command
// is followed by bytes that are discarded. A pull is answered with data and a flush.
#include "launch/doctor/link_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;
using LinkTime = std::chrono::steady_clock::time_point;

constexpr std::size_t kWordBytes = 64;
constexpr std::size_t kPieceBytes = 1U << 20U;
constexpr int kPings = 200;
constexpr auto kPingTime = milliseconds(200);
constexpr auto kStreamTime = milliseconds(250);
constexpr auto kSilence = milliseconds(30'000);

enum class WordKind : std::uint64_t { kPing = 1, kData = 2, kFlush = 3, kPull = 4 };

struct Word {
  WordKind kind = WordKind::kPing;
  std::array<char, kWordBytes - sizeof(WordKind)> filling{};
};

double link_seconds(LinkTime begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Thrown if the other host has reported that it cannot connect.
struct GivenUp {};

/// The messages from one host to another.
class Dialogue {
 public:
  Dialogue(wire::Circle& circle, int peer) : circle_(circle), peer_(peer), bytes_(kPieceBytes) {}

  void say(Word word) { send({message(word)}); }
  Word hear() {
    Word word;
    receive({message(word)});
    return word;
  }
  void swallow() { receive({{peer_, bytes_.data(), bytes_.size()}}); }
  Word ask(Word word) {
    Word answer;
    exchange({message(word)}, {message(answer)}, kSilence, {});
    return answer;
  }

  /// Exchanges the first commands, which connect the two hosts.
  void begin(milliseconds patience) {
    Word ping;
    Word answer;
    exchange({message(ping)}, {message(answer)}, patience, {});
  }
  Word await(const std::function<bool()>& has_given_up) {
    Word word;
    exchange({}, {message(word)}, kSilence, [&](int /*rank*/) {
      if (has_given_up()) throw GivenUp{};
    });
    return word;
  }

  /// Sends data for kStreamTime, then a flush. Returns the number of bytes.
  std::uint64_t stream() {
    std::uint64_t sent = 0;
    Word data{.kind = WordKind::kData};
    const LinkTime begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < kStreamTime) {
      send({message(data), {peer_, bytes_.data(), bytes_.size()}});
      sent += bytes_.size();
    }
    say({.kind = WordKind::kFlush});
    return sent;
  }

 private:
  wire::Message message(Word& word) { return {peer_, reinterpret_cast<std::byte*>(&word), sizeof word}; }
  void send(const std::vector<wire::Message>& messages) { exchange(messages, {}, kSilence, {}); }
  void receive(const std::vector<wire::Message>& messages) { exchange({}, messages, kSilence, {}); }
  void exchange(const std::vector<wire::Message>& sends, const std::vector<wire::Message>& receives,
                milliseconds patience, std::function<void(int)> not_connected) {
    circle_.exchange({.sends = sends,
                      .receives = receives,
                      .not_connected = std::move(not_connected),
                      .end = AwakeClock::instance().now() + patience});
  }

  wire::Circle& circle_;
  const int peer_;
  std::vector<std::byte> bytes_;
};

double median_ping(Dialogue& dialogue) {
  std::vector<double> times;
  const LinkTime begin = std::chrono::steady_clock::now();
  while (times.size() < kPings && (times.empty() || std::chrono::steady_clock::now() - begin < kPingTime)) {
    const LinkTime start = std::chrono::steady_clock::now();
    (void)dialogue.ask({.kind = WordKind::kPing});
    times.push_back(link_seconds(start) * 1e6);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double rate_there(Dialogue& dialogue) {
  const LinkTime begin = std::chrono::steady_clock::now();
  const std::uint64_t sent = dialogue.stream();
  (void)dialogue.hear();
  return static_cast<double>(sent) / link_seconds(begin);
}

double rate_back(Dialogue& dialogue) {
  const LinkTime begin = std::chrono::steady_clock::now();
  dialogue.say({.kind = WordKind::kPull});
  std::uint64_t received = 0;
  while (dialogue.hear().kind == WordKind::kData) {
    dialogue.swallow();
    received += kPieceBytes;
  }
  return static_cast<double>(received) / link_seconds(begin);
}

void answer(Dialogue& dialogue, Word word) {
  switch (word.kind) {
    case WordKind::kPing:
    case WordKind::kFlush:
      return dialogue.say(word);
    case WordKind::kData:
      return dialogue.swallow();
    case WordKind::kPull:
      dialogue.stream();
      return;
  }
  throw wire::ConnectionLost("the other host sent an unknown message");
}

}  // namespace

view::LinkSpeed measure_link(wire::Circle& circle, int peer, milliseconds patience) {
  Dialogue dialogue(circle, peer);
  const char* failure = "cannot connect";
  try {
    dialogue.begin(patience);
    failure = "the connection was lost";
    const double round_trip_us = median_ping(dialogue);
    const double there = rate_there(dialogue);
    return {.round_trip_us = round_trip_us, .bytes_per_s = std::min(there, rate_back(dialogue))};
  } catch (const std::runtime_error& problem) {
    const std::string why = problem.what();
    throw IoError(fmt::format("{}: {}", failure, why.empty() ? "the other host sent nothing" : why));
  }
}

void serve_link(wire::Circle& circle, int peer, const std::function<bool()>& has_given_up) noexcept {
  try {
    Dialogue dialogue(circle, peer);
    for (Word word = dialogue.await(has_given_up);; word = dialogue.hear()) answer(dialogue, word);
  } catch (const GivenUp&) {
  } catch (const std::exception& end) {
    log::debug("the link with rank {} was measured: {}", peer, end.what());
  }
}

}  // namespace lockstep::launch
