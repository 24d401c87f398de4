// SPDX-License-Identifier: Apache-2.0
// A store client. Each call in progress has its own connection, so a thread that waits for a key never delays a thread
// that sets one. Connections are kept for the next call.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/base/wait_notice.h"
#include "lockstep/store/reach_store.h"
#include "lockstep/store/store.h"
#include "store/door.h"
#include "store/socket.h"
#include "store/table.h"
#include "store/wire.h"

namespace lockstep {
namespace {

using store::FrameReader;
using store::FrameWriter;
using store::Opened;
using store::Outcome;
using store::Socket;
using store::Status;
using store::Verb;

// The time limit of the first attempt in connect_store(), which then reports that it is waiting.
constexpr auto kReach = std::chrono::seconds(3);
// The time limit of an attempt if the caller may be asked to end, which is checked after each attempt.
constexpr auto kReachOfSignals = std::chrono::seconds(1);
constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(200);

TimePoint now() { return AwakeClock::instance().now(); }

class Client final : public Store {
 public:
  Client(StoreAddress address, Socket first, std::chrono::milliseconds answer_limit)
      : address_(std::move(address)), answer_limit_(answer_limit) {
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

  std::int64_t append(const std::string& queue, const std::string& value) override {
    const Reply reply = exchange(FrameWriter(Verb::kAppend).string(queue).string(value).take());
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
      throw UsageError(fmt::format("a store request of {} exceeds the limit of {}", text::bytes(frame.size()),
                                   text::bytes(store::kMaxFrameBytes)));
    }
    // A wait of a year is long enough, and does not overflow the clock.
    waits = std::clamp<std::chrono::milliseconds>(waits, std::chrono::milliseconds(0), std::chrono::hours(24 * 365));
    const auto deadline = now() + waits + answer_limit_;
    const SocketPtr socket = borrow();
    std::string body;
    auto outcome = socket->send(frame, deadline);
    if (outcome == Outcome::kDone) outcome = socket->receive(body, deadline);
    give_back(socket, outcome == Outcome::kDone);
    if (outcome == Outcome::kGone || outcome == Outcome::kForeign) throw_gone();
    if (outcome == Outcome::kLate) {
      throw TimeoutError(fmt::format("the store at {}:{} did not answer within {}", address_.host, address_.port,
                                     text::duration(Seconds(waits + answer_limit_).count())));
    }
    Reply reply{static_cast<Status>(body[0]), body.substr(1)};
    if (reply.status == Status::kTimeout) throw_timeout(reply, waits);
    if (reply.status == Status::kFull) {
      throw ResourceError(fmt::format("the store at {}:{} is full: its keys and values take {}", address_.host,
                                      address_.port, text::bytes(store::kMaxTableBytes)),
                          "remove keys that are no longer read, and keep large values in files");
    }
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

  Socket open_another() {
    auto opened = store::open_among_strangers(address_, now() + answer_limit_);
    if (!opened.socket) throw_gone();
    return std::move(*opened.socket);
  }

  void give_back(const SocketPtr& socket, bool is_good) {
    std::lock_guard lock(mutex_);
    busy_.erase(socket);
    if (is_good && !is_shut_down_) idle_.push_back(socket);
  }

  [[noreturn]] void throw_gone() const {
    throw PeerError(fmt::format("the store at {}:{} is gone", address_.host, address_.port),
                    "the launcher, or the rank that served the store, has ended: its output shows the cause");
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
                                 why.empty() ? "no reason given" : text::printable_line(why)));
  }

  std::string string_of(const Reply& reply) const {
    expect_ok(reply);
    FrameReader fields(reply.fields);
    return fields.string();
  }

 private:
  const StoreAddress address_;
  const std::chrono::milliseconds answer_limit_;
  std::mutex mutex_;
  bool is_shut_down_ = false;
  std::vector<SocketPtr> idle_;
  std::unordered_set<SocketPtr> busy_;
};

}  // namespace

std::shared_ptr<Store> connect_store(const StoreAddress& address, std::chrono::milliseconds timeout,
                                     std::chrono::milliseconds answer_limit) {
  return reach_store(address, timeout, answer_limit, {});
}

std::shared_ptr<Store> reach_store(const StoreAddress& address, std::chrono::milliseconds timeout,
                                   std::chrono::milliseconds answer_limit,
                                   const std::function<bool()>& is_asked_to_end) {
  if (answer_limit.count() == 0) answer_limit = store::answer_limit();
  const auto deadline = now() + std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(0),
                                                                      std::chrono::hours(24 * 365));
  std::chrono::milliseconds pause = kFirstPause;
  WaitNotice notice(now());
  for (;;) {
    const TimePoint end = std::max(deadline, now() + kFirstPause);
    auto opened = store::open_connection(
        address, is_asked_to_end ? std::min<TimePoint>(end, now() + kReachOfSignals) : end, kReach);
    if (opened.socket) return std::make_shared<Client>(address, std::move(*opened.socket), answer_limit);
    if (const auto waited = notice.due(now())) {
      log::note("waiting for the job's store at {}:{}, which node 0 serves ({} so far: {}); {} ends the wait after {}",
                address.host, address.port, text::duration(waited->count()), opened.socket.error(),
                env::timeout_variable(), text::duration(Seconds(timeout).count()));
    }
    if (now() + pause >= deadline || (is_asked_to_end && is_asked_to_end())) {
      // Without time left, the wait for the name was the long one.
      const auto within = timeout.count() > 0 ? " within " + text::duration(Seconds(timeout).count()) : "";
      throw TimeoutError(
          fmt::format("no store at {}:{}{} ({})", address.host, address.port, within, opened.socket.error()),
          opened.is_reached
              ? fmt::format("a program listens there ({}): check that the launcher of node 0 has the same version, "
                            "that it reports no refused connections, and that no other program uses the port",
                            opened.socket.error())
              : "check that the launcher of node 0 is running, and that this host can reach its address and port");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause);
  }
}

}  // namespace lockstep
