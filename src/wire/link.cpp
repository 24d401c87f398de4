// SPDX-License-Identifier: Apache-2.0
#include "wire/link.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"

namespace lockstep::wire {
namespace {

constexpr auto kAgain = std::chrono::milliseconds(50);
// A connection that is silent after its peer has proved that it knows the key is closed after this time, to allow
// another attempt.
constexpr auto kOpeningLimit = std::chrono::milliseconds(20'000);
constexpr const char* kSilent = "it has not answered";

TimePoint now() { return AwakeClock::instance().now(); }

/// Warns about a relay, but only once, because a waiting rank calls repeatedly.
void warn_of_relay(int peer) {
  static std::atomic<bool> has_warned{false};
  log::write(
      has_warned.exchange(true) ? log::Level::kDebug : log::Level::kWarn,
      fmt::format(
          "a connection with rank {} was closed: its other end did not prove that it belongs to this job and sees the "
          "same addresses. If a program relays the connection, or a router translates addresses, use --wire tls",
          peer));
}

}  // namespace

std::chrono::milliseconds opening_limit(std::chrono::milliseconds timeout) {
  return timeout.count() > 0 ? std::min(kOpeningLimit, timeout / 2) : kOpeningLimit;
}

Link::Link(Hub& hub, std::uint64_t circle, int peer) : hub_(hub), circle_(circle), peer_(peer) {}

bool Link::calls() const { return hub_.options().rank > peer_; }

bool Link::connect() {
  if (connection_) return open();
  if (!calls()) return await_call();
  return calling_.valid() ? await_connect() : call();
}

bool Link::await_call() {
  auto caller = hub_.listener().take({circle_, peer_});
  if (!caller) return false;
  tune(caller->fd.get(), hub_.options().timeout);
  Opening::Facts facts{hub_.key(), hub_.own_nonce(), route_of(caller->fd.get(), End::kCalled)};
  connection_ = std::make_unique<Connection>(std::move(caller->fd),
                                             Opening::answer(std::move(facts), caller->hello, caller->words));
  due_ = now() + opening_limit(hub_.options().timeout);
  return true;
}

bool Link::call() {
  if (due_ && now() < *due_) return false;
  due_ = std::nullopt;
  if (!place_) place_ = hub_.place_of(peer_);
  if (!place_) return false;
  calling_ = begin_to_connect(place_->endpoint);
  if (!calling_.valid()) {
    if (is_shortage(errno)) throw_cannot(fmt::format("connect with rank {}", peer_), errno);
    start_anew(error_words(errno));
  }
  return true;
}

bool Link::await_connect() {
  pollfd ready{calling_.get(), POLLOUT, 0};
  if (::poll(&ready, 1, 0) != 1) return false;
  if (const int problem = connect_problem(calling_.get()); problem != 0) {
    start_anew(error_words(problem));
    return true;
  }
  tune(calling_.get(), hub_.options().timeout);
  const Hello hello{.is_encrypted = hub_.options().is_encrypted,
                    .from = static_cast<std::uint32_t>(hub_.options().rank),
                    .to = static_cast<std::uint32_t>(peer_),
                    .circle = circle_,
                    .nonce = make_nonce()};
  Opening::Facts facts{hub_.key(), place_->nonce, route_of(calling_.get(), End::kCaller)};
  connection_ = std::make_unique<Connection>(std::move(calling_), Opening::call(std::move(facts), hello));
  due_ = now() + opening_limit(hub_.options().timeout);
  return true;
}

bool Link::open() {
  try {
    const Connection::Step step = connection_->open();
    is_open_ = step == Connection::Step::kOpen;
    if (is_open_) due_ = std::nullopt;
    if (step == Connection::Step::kRefused) {
      warn_of_relay(peer_);
      start_anew("it does not prove that it belongs to this job");
    }
    if (step == Connection::Step::kUnderWay && now() >= *due_) start_anew(kSilent);
    return step != Connection::Step::kUnderWay;
  } catch (const ConnectionLost& lost) {
    start_anew(lost.what());
    return true;
  }
}

void Link::start_anew(const std::string& why) {
  const std::string whom =
      calls() && place_ ? fmt::format(" at {} port {}", place_->endpoint.address, place_->endpoint.port) : "";
  log::debug("no connection with rank {}{} yet: {}", peer_, whom, why);
  why_ = why;
  calling_.reset();
  connection_.reset();
  due_ = calls() ? std::optional(now() + kAgain) : std::nullopt;  // a called rank waits for the next call
}

std::string Link::problem() const {
  if (is_open_) return "";
  if (!why_.empty()) return why_;
  if (!calls() && !connection_) return "it has not connected yet";
  if (connection_) return kSilent;
  if (!place_) return "it has not published its address";
  return fmt::format("{} port {} does not answer", place_->endpoint.address, place_->endpoint.port);
}

int Link::fd() const noexcept {
  if (connection_) return connection_->fd();
  return calling_.valid() ? calling_.get() : -1;
}

short Link::events() const noexcept { return connection_ ? connection_->events() : POLLOUT; }

}  // namespace lockstep::wire
