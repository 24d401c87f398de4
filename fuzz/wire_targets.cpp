// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/wire/circle.h"
#include "targets.h"
#include "wire/connection.h"

namespace lockstep::fuzz {
namespace wire_targets {
namespace {

using namespace wire;

const std::string kListener(kNonceBytes, 'L');
const Route kRoute{"10.0.0.1 40000", "10.0.0.2 50000"};

const std::string& right_key() {
  static const std::string key = wire_key("a token that no input holds", "seed");
  return key;
}

Hello hello_of(bool is_encrypted) {
  return {.is_encrypted = is_encrypted, .from = 1, .to = 0, .circle = 7, .nonce = std::string(kNonceBytes, 'c')};
}

const std::string& words_of(bool is_encrypted) {
  static const std::array<std::string, 2> words{write_hello(hello_of(false), right_key(), kListener),
                                                write_hello(hello_of(true), right_key(), kListener)};
  return words[is_encrypted ? 1 : 0];
}

/// `words` with the changes in `bytes`: pairs of a position and a number to add.
std::string altered(std::string words, std::string_view bytes) {
  for (std::size_t i = 0; i + 1 < bytes.size() && i < 16; i += 2) {
    const std::size_t place = static_cast<unsigned char>(bytes[i]) % words.size();
    words[place] = static_cast<char>(words[place] + bytes[i + 1]);
  }
  return words;
}

/// Feeds `bytes` to an end, in pieces whose lengths come from the bytes themselves.
void feed(Opening& end, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), 1 + static_cast<unsigned char>(bytes[0]) % 40);
    const std::size_t missing = end.missing();
    require(end.arrived(bytes.substr(0, size)) == std::min(size, missing));
    bytes.remove_prefix(size);
  }
}

Opening called_end(const std::string& key = right_key()) {
  return Opening::answer({key, kListener, kRoute}, hello_of(false), words_of(false));
}
Opening calling_end(const std::string& key = right_key()) {
  return Opening::call({key, kListener, kRoute}, hello_of(false));
}

/// The calling end's reply to the called end's `answer`.
std::string proof_for(std::string_view answer) {
  Opening caller = calling_end();
  (void)caller.words();
  (void)caller.arrived(answer);
  require(caller.step() == Opening::Step::kOpen);
  return caller.words();
}

struct Sockets {
  UniqueFd one;
  UniqueFd other;
};

Sockets socket_pair() {
  std::array<int, 2> fds{};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

void say(const UniqueFd& fd, std::string_view bytes) {
  (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// The other end proves that it knows the key; after that the fuzzer speaks for it.
std::unique_ptr<Connection> open_plain(Sockets& sockets) {
  Opening called = called_end();
  say(sockets.other, proof_for(called.words()));
  auto connection = std::make_unique<Connection>(std::move(sockets.one), std::move(called));
  require(connection->open() == Connection::Step::kOpen);
  return connection;
}

void run_frames(Connection& connection) {
  constexpr std::size_t kSmall = 40;
  constexpr std::size_t kLarge = 4096;
  constexpr auto kGuard = std::byte{0x5A};
  std::vector<std::byte> room(kSmall + kLarge + 3 * 64, kGuard);
  std::byte* const first = room.data() + 64;
  std::byte* const second = first + kSmall + 64;
  connection.expect(first, kSmall);
  connection.expect(second, kLarge);
  try {
    while (connection.step()) continue;
  } catch (const ConnectionLost&) {
  } catch (const WrongLength&) {
  }
  require(connection.received() <= kSmall + kLarge);
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  require(std::all_of(room.data(), first, is_guard) && std::all_of(first + kSmall, second, is_guard) &&
          std::all_of(second + kLarge, room.data() + room.size(), is_guard));
}

}  // namespace
}  // namespace wire_targets

void wire_hello(std::string_view bytes) {
  using namespace wire_targets;
  for (const bool is_encrypted : {false, true}) {
    const std::string& right = words_of(is_encrypted);
    const auto read = read_hello(bytes, right_key(), kListener);
    require(!read || bytes == words_of(read->is_encrypted));
    const std::string other = altered(right, bytes);
    require(read_hello(other, right_key(), kListener).has_value() == (other == right));
    require(!read_hello(right, wire_key(bytes, "seed"), kListener));
    require(!read_hello(right, right_key(), bytes));
  }
}

void wire_opening(std::string_view bytes) {
  using namespace wire_targets;
  // A different key, because the fuzzer sees the comparisons below and would find the right bytes for the first key by
  // itself.
  static const std::string key = wire_key("a token of no other end", "seed");
  Opening caller = calling_end(key);
  Opening called = called_end(key);
  feed(caller, bytes);
  feed(called, bytes);
  require(caller.step() != Opening::Step::kOpen && called.step() != Opening::Step::kOpen);
  // The bytes that a valid end sends, with changes.
  Opening right_called = called_end();
  const std::string answer = right_called.words();
  const std::string wrong_answer = altered(answer, bytes);
  Opening second_caller = calling_end();
  feed(second_caller, wrong_answer);
  require((second_caller.step() == Opening::Step::kOpen) == (wrong_answer == answer));
  const std::string proof = proof_for(answer);
  const std::string wrong_proof = altered(proof, bytes);
  feed(right_called, wrong_proof);
  require((right_called.step() == Opening::Step::kOpen) == (wrong_proof == proof));
}

void wire_frames(std::string_view bytes) {
  using namespace wire_targets;
  if (bytes.empty()) return;
  Sockets sockets = socket_pair();
  const bool is_encrypted = (bytes[0] & 1) != 0;
  const std::string_view rest = bytes.substr(1);
  if (!is_encrypted) {
    const auto connection = open_plain(sockets);
    say(sockets.other, rest);
    run_frames(*connection);
    return;
  }
  const bool is_called = (bytes[0] & 2) != 0;
  Opening::Facts facts{right_key(), kListener, kRoute};
  Connection connection(std::move(sockets.one), is_called
                                                    ? Opening::answer(std::move(facts), hello_of(true), words_of(true))
                                                    : Opening::call(std::move(facts), hello_of(true)));
  say(sockets.other, rest);
  sockets.other.reset();
  try {
    for (int tries = 0; tries < 100; ++tries) require(connection.open() != Connection::Step::kOpen);
  } catch (const ConnectionLost&) {
  }
}

}  // namespace lockstep::fuzz
