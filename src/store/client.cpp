// SPDX-License-Identifier: Apache-2.0
// A store client: each verb in progress has a connection of its own, so that a thread that waits for a key never holds
// up a thread that sets one. Connections are kept for the next verb.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/store/store.h"
#include "store/handshake.h"
#include "store/socket.h"
#include "store/table.h"
#include "store/wire.h"

namespace lockstep {
namespace {

using store::FrameReader;
using store::FrameWriter;
using store::Outcome;
using store::Socket;
using store::Status;
using store::Verb;

// A server answers at once; one that is silent for so long is stopped or cut off.
constexpr auto kAnswerLimit = std::chrono::seconds(60);
// What accepts a connection and is silent for so long is tried again.
constexpr auto kDoorLimit = std::chrono::seconds(10);
constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(500);

TimePoint now() { return SystemClock::instance().now(); }

/// A socket, or why there is none; `is_reached`: somebody listens there.
struct Opened {
  Result<Socket> socket;
  bool is_reached = false;
};

/// Questions and answers before the store is open.
struct Exchange {
  Socket& socket;
  const TimePoint deadline;
  Outcome outcome = Outcome::kDone;
  bool was_refused = false;

  // The one field of a good answer.
  std::optional<std::string> ask(FrameWriter& question) {
    std::string body;
    outcome = socket.send(question.take(), deadline);
    if (outcome == Outcome::kDone) outcome = socket.receive(body, deadline, store::kMaxHelloBytes);
    if (outcome != Outcome::kDone) return std::nullopt;
    FrameReader answer(body);
    const auto status = static_cast<Status>(answer.byte());
    was_refused = status == Status::kRefused;
    std::string field = answer.string();
    if (status != Status::kOk || !answer.complete()) return std::nullopt;
    return field;
  }

  [[nodiscard]] std::string problem() const {
    if (outcome == Outcome::kLate) return "it accepts connections and says nothing";
    if (outcome == Outcome::kGone) return "it accepts connections and closes them";
    return "it does not answer as a Lockstep store of this version";
  }
};

class Client final : public Store {
 public:
  Client(StoreAddress address, Socket first) : address_(std::move(address)) {
    idle_.push_back(std::make_shared<Socket>(std::move(first)));
  }

  void set(const std::string& key, const std::string& value) override {
    expect_ok(exchange(FrameWriter(Verb::kSet).string(key).string(value).take()));
  }

  std::optional<std::string> try_get(const std::string& key) override {
    const Reply reply = exchange(FrameWriter(Verb::kTryGet).string(key).take());
    if (reply.status == Status::kAbsent) return std::nullopt;
    return string_of(reply);
  }

  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    return string_of(exchange(FrameWriter(Verb::kGet).number(timeout.count()).string(key).take(), timeout));
  }

  std::int64_t add(const std::string& key, std::int64_t delta) override {
    const Reply reply = exchange(FrameWriter(Verb::kAdd).string(key).number(delta).take());
    expect_ok(reply);
    FrameReader fields(reply.fields);
    return fields.number();
  }

  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return string_of(exchange(FrameWriter(Verb::kCompareSet).string(key).string(expected).string(desired).take()));
  }

  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override {
    expect_ok(exchange(FrameWriter(Verb::kWait).number(timeout.count()).strings(keys).take(), timeout));
  }

  bool remove(const std::string& key) override {
    const Reply reply = exchange(FrameWriter(Verb::kRemove).string(key).take());
    if (reply.status == Status::kAbsent) return false;
    expect_ok(reply);
    return true;
  }

  void shut_down() noexcept override {
    std::lock_guard lock(mutex_);
    is_shut_down_ = true;
    for (const auto& socket : busy_) socket->shut_down();
    idle_.clear();
  }

 private:
  struct Reply {
    Status status;
    std::string fields;
  };
  using SocketPtr = std::shared_ptr<Socket>;

  Reply exchange(const std::string& frame, std::chrono::milliseconds waits = {}) {
    if (frame.size() > store::kMaxFrameBytes) {
      throw UsageError(fmt::format("a store request of {} is larger than {}", text::bytes(frame.size()),
                                   text::bytes(store::kMaxFrameBytes)));
    }
    // Hours are as good as for ever, and never overflow the clock.
    waits = std::clamp<std::chrono::milliseconds>(waits, std::chrono::milliseconds(0), std::chrono::hours(24 * 365));
    const auto deadline = now() + waits + kAnswerLimit;
    const SocketPtr socket = borrow();
    std::string body;
    auto outcome = socket->send(frame, deadline);
    if (outcome == Outcome::kDone) outcome = socket->receive(body, deadline);
    give_back(socket, outcome == Outcome::kDone);
    if (outcome == Outcome::kGone) throw_gone();
    if (outcome == Outcome::kLate) {
      throw TimeoutError(fmt::format("the store at {}:{} did not answer within {}", address_.host, address_.port,
                                     text::duration(Seconds(waits + kAnswerLimit).count())));
    }
    Reply reply{static_cast<Status>(body[0]), body.substr(1)};
    if (reply.status == Status::kTimeout) throw_timeout(reply, waits);
    return reply;
  }

  SocketPtr borrow() {
    {
      std::lock_guard lock(mutex_);
      if (is_shut_down_) throw_gone();
      if (!idle_.empty()) {
        auto socket = *busy_.insert(std::move(idle_.back())).first;
        idle_.pop_back();
        return socket;
      }
    }
    auto socket = std::make_shared<Socket>(open_another());
    std::lock_guard lock(mutex_);
    if (is_shut_down_) throw_gone();
    busy_.insert(socket);
    return socket;
  }

  // A server that is there and closes the connection has too many strangers at its door: another try gets in.
  Socket open_another() {
    const auto deadline = now() + kAnswerLimit;
    for (auto pause = kFirstPause;; pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause)) {
      auto opened = open(address_, deadline);
      if (opened.socket) return std::move(*opened.socket);
      if (!opened.is_reached || now() + pause >= deadline) throw_gone();
      std::this_thread::sleep_for(pause);
    }
  }

  void give_back(const SocketPtr& socket, bool is_good) {
    std::lock_guard lock(mutex_);
    busy_.erase(socket);
    if (is_good && !is_shut_down_) idle_.push_back(socket);
  }

  [[noreturn]] void throw_gone() const {
    throw PeerError(fmt::format("the store at {}:{} is gone", address_.host, address_.port),
                    "the launcher, or the rank that served the store, has ended: its output says why");
  }

  [[noreturn]] static void throw_timeout(const Reply& reply, std::chrono::milliseconds waits) {
    FrameReader fields(reply.fields);
    throw TimeoutError(store::timeout_message(fields.strings(), Seconds(waits).count()));
  }

  void expect_ok(const Reply& reply) const {
    if (reply.status == Status::kOk) return;
    FrameReader fields(reply.fields);
    const std::string why = fields.string();
    throw UsageError(fmt::format("the store at {}:{} refused a request: {}", address_.host, address_.port,
                                 why.empty() ? "no reason given" : why));
  }

  std::string string_of(const Reply& reply) const {
    expect_ok(reply);
    FrameReader fields(reply.fields);
    return fields.string();
  }

 public:
  // Connects, and both sides prove that they know the token. Throws UsageError where one does not.
  static Opened open(const StoreAddress& address, TimePoint deadline) {
    auto socket = Socket::connect(address.host, address.port, deadline);
    if (!socket) return {std::move(socket), false};
    deadline = std::min<TimePoint>(deadline, now() + kDoorLimit);
    Exchange exchange{*socket, deadline};
    store::Nonces nonces{.client = store::make_nonce(), .server = {}};
    const auto hello = exchange.ask(FrameWriter(Verb::kHello).string(store::kMagic).string(nonces.client));
    nonces.server = hello.value_or("");
    if (nonces.server.size() != store::kNonceBytes) return {Failure{exchange.problem()}, true};
    const auto proof =
        exchange.ask(FrameWriter(Verb::kProve).string(store::prove(address.token, store::Side::kClient, nonces)));
    if (!proof && !exchange.was_refused) return {Failure{exchange.problem()}, true};
    if (proof && store::is_proof(*proof, address.token, store::Side::kServer, nonces)) return {std::move(socket), true};
    throw UsageError(fmt::format("the store at {}:{} {}", address.host, address.port,
                                 proof ? "does not know our token: it is not our job's" : "refused our token"),
                     "give every node the same token (--token-file or LOCKSTEP_TOKEN), and check that no other job "
                     "uses this port");
  }

 private:
  const StoreAddress address_;
  std::mutex mutex_;
  bool is_shut_down_ = false;
  std::vector<SocketPtr> idle_;
  std::unordered_set<SocketPtr> busy_;
};

}  // namespace

std::shared_ptr<Store> connect_store(const StoreAddress& address, std::chrono::milliseconds timeout) {
  const auto deadline = now() + std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(0),
                                                                      std::chrono::hours(24 * 365));
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    auto opened = Client::open(address, std::max(deadline, now() + kFirstPause));
    if (opened.socket) return std::make_shared<Client>(address, std::move(*opened.socket));
    if (now() + pause >= deadline) {
      throw TimeoutError(
          fmt::format("no store at {}:{} within {} ({})", address.host, address.port,
                      text::duration(Seconds(timeout).count()), opened.socket.error()),
          opened.is_reached
              ? "something listens there: see what the launcher of node 0 says of connections that it turned away, "
                "and check that no other program uses the port"
              : "check that the launcher of node 0 runs, and that its address and port can be reached");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause);
  }
}

}  // namespace lockstep
