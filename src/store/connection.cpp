// SPDX-License-Identifier: Apache-2.0
#include "store/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep::store {
namespace {

// A rank answers within milliseconds; a silent stranger is dropped after this time. A client that has knocked may have
// to wait for the encryption of other connections: a signature takes milliseconds.
constexpr auto kProofLimit = std::chrono::seconds(5);
constexpr auto kKnockedLimit = std::chrono::seconds(10);
constexpr std::size_t kShownKey = 100;
// Bytes that stay in this process are not encrypted.
const std::string kNoKnocks;

// If memory runs out during a step, ends only the client's connection, so that the client does not wait for a reply.
template <class Step>
void guarded(Connection& client, Step&& step) {
  try {
    step();
  } catch (const std::exception& problem) {
    client.give_up();
    say(problem);
  }
}

// Ends the connection of a client that has the token but floods the store.
void drop(Connection& client, ServerState& state, const std::string& address) {
  if (state.dropped.add(SystemClock::instance().now())) {
    log::warn(
        "the store closed a connection from {}: the client does not read its replies fast enough, or the requests and "
        "replies of all clients take more than {}",
        address.empty() ? "this process" : address, text::bytes(kMaxInFlightBytes));
  }
  client.give_up();
}

// Publishes the will of a lost client.
void publish(ServerState& state, Attendance& attendance, std::string_view why) {
  for (const std::string& key : attendance.end()) {
    const std::string value = fmt::format("{}\n{}", why, attendance.will());
    if (key.ends_with('/')) {
      state.append(key, value);
    } else {
      state.table.compare_set(key, "", value);
      state.key_changed(key);
    }
  }
}

bool adds(Verb verb) {
  return verb == Verb::kSet || verb == Verb::kAppend || verb == Verb::kCompareSet || verb == Verb::kAdd;
}

std::string kept_reply(const std::string& key) {
  const std::string why = fmt::format("'{}' belongs to the launcher of node 0", key.substr(0, kShownKey));
  return FrameWriter(Status::kBadRequest).string(why).take();
}

}  // namespace

Connection::Connection(Stream::Socket socket, ServerState& state, From from)
    : state_(state),
      frames_(std::move(socket), [this](std::size_t bytes) { return holds(bytes); }),
      timer_(frames_.stream().socket().get_executor()),
      attendance_(frames_.stream().socket().get_executor()),
      entry_(state.token, from == From::kNetwork ? state.knocks : kNoKnocks) {}

void Connection::start(Strangers::Id id, std::string address) {
  id_ = id;
  address_ = std::move(address);
  timer_.start(kProofLimit, [self = shared_from_this()] {
    if (self->phase_ != Phase::kKnown) self->turn_away();
  });
  read();
}

void Connection::turn_away() {
  state_.note_turned_away(address_);
  close();
}

void Connection::go_on_waiting() {
  guarded(*this, [this] {
    const auto missing = state_.table.missing(wait_keys_);
    if (missing.empty()) {
      timer_.cancel();
      FrameWriter reply(Status::kOk);
      if (wants_value_) reply.string(*state_.table.find(wait_keys_.front()));
      wait_keys_.clear();
      send(reply.take());
    } else {
      listed_under_ = missing.front();
      state_.waiting_for[listed_under_].push_back(shared_from_this());
    }
  });
}

void Connection::give_up() noexcept {
  try {
    close();
  } catch (const std::exception&) {  // there is no memory for the will
    std::error_code ignored;
    frames_.stream().socket().close(ignored);
  }
}

void Connection::close() {
  const auto self = shared_from_this();
  state_.unlist(self, listed_under_);
  if (state_.connections.erase(self) > 0) {
    state_.left(id_);
    state_.in_flight -= std::exchange(held_, 0);
    if (phase_ == Phase::kKnocked) --state_.knocked;
    if (phase_ == Phase::kKnown && id_ != 0) --state_.known;
  }
  timer_.cancel();
  publish(state_, attendance_, "closed");
  std::error_code ignored;
  frames_.stream().socket().close(ignored);
}

void Connection::read() {
  const std::uint32_t limit = phase_ == Phase::kKnown ? kMaxFrameBytes : kMaxHelloBytes;
  frames_.read(limit, [self = shared_from_this()](Frames::Read read, std::string_view body) {
    guarded(*self, [&] { self->take(read, body); });
  });
}

void Connection::take(Frames::Read read, std::string_view body) {
  if (!frames_.stream().socket().is_open()) return;
  if (read == Frames::Read::kEnded) return close();
  // A client must wait for each reply, so a request during a wait is invalid.
  if (read == Frames::Read::kNoMemory) return drop(*this, state_, address_);
  if (read != Frames::Read::kBody || !wait_keys_.empty()) return phase_ == Phase::kKnown ? close() : turn_away();
  if (phase_ == Phase::kKnown) {
    handle(body);
  } else {
    const auto step = entry_.take(body, frames_.stream().binding());
    take_step(step);
    if (step.kind == Entry::Step::Kind::kEncrypt) return;
  }
  if (frames_.stream().socket().is_open()) this->read();
}

void Connection::take_step(const Entry::Step& step) {
  using Kind = Entry::Step::Kind;
  switch (step.kind) {
    case Kind::kAnswer:
      return send(step.frame);
    case Kind::kEncrypt:
      if (!enter(Phase::kKnocked)) return send(FrameWriter(Status::kFull).string("").take(), true);
      send(step.frame);
      return encrypt();
    case Kind::kKnown:
      if (!enter(Phase::kKnown)) return send(FrameWriter(Status::kFull).string("").take(), true);
      timer_.cancel();
      return send(step.frame);
    case Kind::kRefuse:
      state_.note_turned_away(address_);
      return send(step.frame, true);
    case Kind::kTurnAway:
      return turn_away();
  }
}

// Moves the connection to `phase`. Returns false without a change if the limit of that phase is reached.
bool Connection::enter(Phase phase) {
  if (id_ == 0) {
    phase_ = phase;
    return true;
  }
  const bool has_place = phase == Phase::kKnown ? state_.known < state_.limits.known  //
                                                : state_.knocked < state_.limits.knocked;
  if (!has_place) return false;
  state_.left(id_);
  if (phase_ == Phase::kKnocked) --state_.knocked;
  ++(phase == Phase::kKnown ? state_.known : state_.knocked);
  phase_ = phase;
  std::error_code ignored;
  frames_.stream().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  frames_.stream().socket().set_option(asio::socket_base::keep_alive(true), ignored);
  return true;
}

// Starts encryption. The client does not send bytes before it has read the reply to its knock.
void Connection::encrypt() {
  timer_.start(kKnockedLimit, [self = shared_from_this()] {
    if (self->phase_ != Phase::kKnown) self->turn_away();
  });
  frames_.stream().encrypt(*state_.tls, [self = shared_from_this()](std::error_code problem) {
    if (!self->frames_.stream().socket().is_open()) return;
    if (problem) return self->turn_away();
    guarded(*self, [&] { self->read(); });
  });
}

void Connection::handle(std::string_view body) {
  FrameReader request(body);
  const auto verb = static_cast<Verb>(request.byte());
  if (verb == Verb::kGet || verb == Verb::kWait) return handle_wait(verb, request);
  std::string reply;
  if (verb == Verb::kAttend) {
    reply = answer_attend(request);
  } else if (verb == Verb::kLeave) {
    attendance_.end();
    if (request.complete()) reply = FrameWriter(Status::kOk).take();
  } else {
    const std::string key = request.string();
    if (id_ != 0 && !is_for_all(state_, verb, key)) return send(kept_reply(key), true);
    const bool is_full = id_ != 0 && adds(verb) && state_.table.bytes() + body.size() + 2 * kKeyBytes > kMaxTableBytes;
    reply = is_full ? FrameWriter(Status::kFull).string("").take() : answer(state_, verb, key, request);
  }
  if (reply.empty()) return send(FrameWriter(Status::kBadRequest).string("malformed request").take(), true);
  send(reply);
}

void Connection::handle_wait(Verb verb, FrameReader& request) {
  const auto timeout = std::chrono::milliseconds(request.number());
  auto keys = verb == Verb::kGet ? std::vector<std::string>{request.string()} : request.strings();
  if (!request.complete()) return send(FrameWriter(Status::kBadRequest).string("malformed request").take(), true);
  if (keys.empty()) return send(FrameWriter(Status::kOk).take());
  const auto is_kept = [&](const auto& key) { return id_ != 0 && !is_for_all(state_, verb, key); };
  const auto kept = std::find_if(keys.begin(), keys.end(), is_kept);
  if (kept != keys.end()) return send(kept_reply(*kept), true);
  wait_keys_ = std::move(keys);
  wants_value_ = verb == Verb::kGet;
  if (!holds(frames_.bytes())) return drop(*this, state_, address_);
  go_on_waiting();
  if (wait_keys_.empty()) return;
  const auto limit = std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(0), kLongestWait);
  timer_.start(limit, [self = shared_from_this()] {
    if (self->wait_keys_.empty()) return;
    self->state_.unlist(self, self->listed_under_);
    auto reply = FrameWriter(Status::kTimeout).strings(self->state_.table.missing(self->wait_keys_)).take();
    self->wait_keys_.clear();
    self->send(reply);
  });
}

std::string Connection::answer_attend(FrameReader& request) {
  const auto may_write = [this](const std::string& key) {
    return id_ == 0 || is_for_all(state_, key.ends_with('/') ? Verb::kAppend : Verb::kCompareSet, key);
  };
  const bool is_good = attendance_.begin(request, may_write, [self = shared_from_this()] {
    publish(self->state_, self->attendance_, "silent");
    self->close();
  });
  return is_good ? FrameWriter(Status::kOk).take() : "";
}

// Returns true if the connection may hold this many bytes in its frames. If all connections together exceed the limit,
// each may only grow up to an equal share of it.
bool Connection::holds(std::size_t bytes) {
  if (!frames_.stream().socket().is_open()) return true;
  bytes += bytes_of(wait_keys_) + attendance_.bytes();
  const bool grows = bytes > held_;
  state_.in_flight += bytes - held_;
  held_ = bytes;
  const std::size_t share = kMaxInFlightBytes / std::max<std::size_t>(state_.connections.size(), 1);
  return !grows || state_.in_flight <= kMaxInFlightBytes || bytes <= share;
}

void Connection::send(const std::string& frame, bool is_last) {
  if (is_last) frames_.close_after_send();
  if (!frames_.send(frame, [self = shared_from_this()] { self->close(); })) drop(*this, state_, address_);
}

}  // namespace lockstep::store
