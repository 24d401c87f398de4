// SPDX-License-Identifier: Apache-2.0
#include "store/door.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/store/port_holder.h"
#include "lockstep/store/secret.h"
#include "store/handshake.h"
#include "store/inner_door.h"
#include "store/wire.h"

namespace lockstep::store {
namespace {

// If a peer accepts a connection and is silent for this long, another connection is tried.
constexpr auto kDoorLimit = std::chrono::seconds(10);
// The pause between two connection attempts.
constexpr auto kShortest = std::chrono::milliseconds(10);
constexpr auto kLongest = std::chrono::milliseconds(200);
constexpr const char* kEncrypted = " when encryption is requested: does node 0 also have --tls-cert and --tls-key?";
constexpr const char* kPlain = "it encrypts its connections: pass --tls-cert or --tls-ca here as well";

/// The messages before a client is let in.
struct Exchange {
  Socket& socket;
  const TimePoint deadline;
  Outcome outcome = Outcome::kDone;
  Status status = Status::kOk;

  // Sends a request and returns the only field of a successful reply.
  std::optional<std::string> ask(FrameWriter& question) {
    std::string body;
    outcome = socket.send(question.take(), deadline);
    if (outcome == Outcome::kDone) outcome = socket.receive(body, deadline, kMaxHelloBytes);
    if (outcome != Outcome::kDone) return std::nullopt;
    FrameReader answer(body);
    status = static_cast<Status>(answer.byte());
    std::string field = answer.string();
    if (status != Status::kOk || !answer.complete()) return std::nullopt;
    return field;
  }

  [[nodiscard]] std::string problem() const {
    if (status == Status::kFull) return "its limit of open files (ulimit -n) allows no more connections";
    if (outcome == Outcome::kLate) return "it accepts connections but sends nothing";
    if (outcome == Outcome::kGone) return "it accepts connections and closes them at once";
    return "it does not answer as a Lockstep store of this version";
  }
};

void require_trust(const Socket& socket, const StoreAddress& address) {
  const std::string distrust = socket.distrust();
  if (distrust.empty()) return;
  throw UsageError(fmt::format("the certificate of the store at {}:{} could not be verified with {} ({})", address.host,
                               address.port, address.trust, distrust),
                   "on every node, set --tls-ca or LOCKSTEP_TLS_CA to the certificate of node 0, or of the authority "
                   "that signed it");
}

// Returns a clause about the process that holds the port; empty if the port is not on this machine.
std::string holder_words(const StoreAddress& address) {
  const std::string holder = is_loopback(address.host) ? port_holder(address.port) : "";
  return holder.empty() ? "" : fmt::format(" (in use by {})", holder);
}

[[noreturn]] void throw_other_token(const StoreAddress& address, bool is_refused) {
  throw UsageError(fmt::format("the store at {}:{} {}", address.host, address.port,
                               is_refused ? "refused this program's token"
                                          : "does not know this program's token: the store belongs to another job"),
                   fmt::format("use the same token on every node (--token-file or LOCKSTEP_TOKEN), and check that no "
                               "other job uses this port{}",
                               holder_words(address)));
}

// Knocks (proves, still unencrypted, that this side knows the token), then encrypts. Returns the error; empty: none.
std::string encrypt(Socket& socket, Exchange& exchange, const StoreAddress& address, const Nonces& nonces) {
  const auto context = client_tls(address.trust);
  if (!exchange.ask(FrameWriter(Verb::kKnock).string(knock(knock_key(address.token), nonces)))) {
    if (exchange.status == Status::kRefused) throw_other_token(address, true);
    return exchange.status == Status::kOtherMode ? std::string("it refuses") + kEncrypted : exchange.problem();
  }
  exchange.outcome = socket.start_tls(context, exchange.deadline);
  require_trust(socket, address);
  return exchange.outcome == Outcome::kDone ? "" : exchange.problem() + kEncrypted;
}

Opened shake_hands(Socket socket, const StoreAddress& address, TimePoint deadline) {
  Exchange exchange{socket, deadline};
  Nonces nonces{.client = make_nonce(), .server = {}};
  nonces.server = exchange.ask(FrameWriter(Verb::kHello).string(kMagic).string(nonces.client)).value_or("");
  if (nonces.server.size() != kNonceBytes) return {Failure{exchange.problem()}, true};
  if (!address.trust.empty() && !address.inside) {
    const std::string problem = encrypt(socket, exchange, address, nonces);
    if (!problem.empty()) return {Failure{problem}, true};
    nonces.binding = socket.binding();
  }
  const auto proof = exchange.ask(FrameWriter(Verb::kProve).string(prove(address.token, Side::kClient, nonces)));
  if (proof && is_proof(*proof, address.token, Side::kServer, nonces)) return {std::move(socket), true};
  if (proof || exchange.status == Status::kRefused) throw_other_token(address, !proof);
  if (exchange.status == Status::kOtherMode) return {Failure{kPlain}, true};
  return {Failure{exchange.problem()}, true};
}

}  // namespace

Opened open_connection(const StoreAddress& address, TimePoint deadline, std::chrono::milliseconds reach) {
  const TimePoint now = AwakeClock::instance().now();
  auto socket = address.inside
                    ? address.inside->open()
                    : Socket::connect(address.host, address.port, std::min<TimePoint>(deadline, now + reach));
  if (!socket) return {std::move(socket), false};
  return shake_hands(std::move(*socket), address,
                     std::min<TimePoint>(deadline, AwakeClock::instance().now() + kDoorLimit));
}

Opened open_among_strangers(const StoreAddress& address, TimePoint deadline, std::chrono::milliseconds reach) {
  for (std::chrono::milliseconds pause = kShortest;; pause = std::min<std::chrono::milliseconds>(pause * 2, kLongest)) {
    const TimePoint begin = AwakeClock::instance().now();
    auto opened = open_connection(address, deadline, reach);
    const TimePoint now = AwakeClock::instance().now();
    const bool is_refused = !opened.is_reached && now < begin + reach;
    if (opened.socket || is_refused || now + pause >= deadline) return opened;
    std::this_thread::sleep_for(pause);
  }
}

std::chrono::milliseconds answer_limit() {
  return std::clamp<std::chrono::milliseconds>(env::collective_timeout(), std::chrono::seconds(5),
                                               std::chrono::seconds(60));
}

}  // namespace lockstep::store
