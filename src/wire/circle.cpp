// SPDX-License-Identifier: Apache-2.0
#include "lockstep/wire/circle.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "lockstep/base/awake_clock.h"
#include "wire/hub.h"
#include "wire/link.h"
#include "wire/patient_wait.h"

namespace lockstep::wire {
namespace {

constexpr auto kConnectLook = std::chrono::milliseconds(100);

}  // namespace

class Circle::Impl {
 public:
  Impl(std::shared_ptr<Hub> hub, std::uint64_t number)
      : hub_(std::move(hub)), number_(number), wakeup_(std::make_shared<Wakeup>()) {
    hub_->listener().watch(number_, wakeup_);
  }
  ~Impl() { hub_->listener().watch(number_, nullptr); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void interrupt() noexcept {
    is_interrupted_ = true;
    wakeup_->wake();
  }

  [[nodiscard]] int suspect() const noexcept { return suspect_; }

  void exchange(const Exchange& exchange) {
    is_interrupted_ = false;
    active_.clear();
    for (const Message& message : exchange.receives) {
      if (message.bytes > 0) active_for(message.rank).receives.push_back(message);
    }
    for (const Message& message : exchange.sends) {
      if (message.bytes > 0) active_for(message.rank).sends.push_back(message);
    }
    PatientWait wait(waiting_);
    while (true) {
      bool has_moved = false;
      for (Active& active : active_) {
        suspect_ = active.link->peer();
        has_moved = step(active) || has_moved;
      }
      report_arrived(exchange);
      if (drop_finished()) return;
      suspect_ = active_.front().link->peer();
      if (is_interrupted_) throw Interrupted(active_.front().link->problem());
      if (has_moved) {
        wait.moved();
      } else if (!wait.spin()) {
        look_around(exchange);
        wait_for_any(wait, exchange.end);
      }
    }
  }

 private:
  /// A link with work left in an exchange.
  struct Active {
    Link* link = nullptr;
    std::vector<Message> sends;
    std::vector<Message> receives;
    bool has_begun = false;
  };

  Link& link_to(int peer) {
    auto& link = links_[peer];
    if (!link) link = std::make_unique<Link>(*hub_, number_, peer);
    return *link;
  }

  Active& active_for(int peer) {
    for (Active& active : active_) {
      if (active.link->peer() == peer) return active;
    }
    active_.push_back({&link_to(peer), {}, {}, false});
    return active_.back();
  }

  bool step(Active& active) {
    if (!active.link->is_open()) {
      if (!active.link->connect()) return false;
      if (!active.link->is_open()) return true;
    }
    Connection& connection = active.link->connection();
    if (!std::exchange(active.has_begun, true)) {
      connection.start();
      for (const Message& message : active.receives) connection.expect(message.data, message.bytes);
      for (const Message& message : active.sends) connection.send(message.data, message.bytes);
    }
    return connection.step();
  }

  /// Reports how many bytes of each message have arrived.
  void report_arrived(const Exchange& exchange) {
    if (!exchange.arrived) return;
    // Links that are not in the list have received all their messages.
    std::size_t least = exchange.receives.empty() ? 0 : exchange.receives.front().bytes;
    for (const Active& active : active_) {
      if (active.receives.empty()) continue;
      const std::size_t message_bytes = active.receives.front().bytes;
      const std::size_t have = active.has_begun ? active.link->connection().received() : 0;
      const std::size_t whole =
          (active.receives.size() - 1) * message_bytes;  // only the last message can be incomplete
      least = std::min(least, have > whole ? have - whole : 0);
    }
    if (least > 0) exchange.arrived(least);
  }

  /// Removes finished links from the list. Returns true if none are left.
  bool drop_finished() {
    const auto is_finished = [](const Active& active) {
      return active.has_begun && active.link->connection().is_sent() && active.link->connection().is_received();
    };
    active_.erase(std::remove_if(active_.begin(), active_.end(), is_finished), active_.end());
    return active_.empty();
  }

  void look_around(const Exchange& exchange) {
    const TimePoint now = AwakeClock::instance().now();
    if (now >= exchange.end) throw Interrupted(active_.front().link->problem());
    if (!exchange.not_connected || now < next_look_) return;
    const auto found =
        std::find_if(active_.begin(), active_.end(), [](const Active& active) { return !active.link->is_open(); });
    if (found == active_.end()) return;
    next_look_ = now + kConnectLook;
    exchange.not_connected(found->link->peer());
  }

  void wait_for_any(PatientWait& wait, TimePoint end) {
    fds_.clear();
    fds_.push_back({wakeup_->fd(), POLLIN, 0});
    const TimePoint now = AwakeClock::instance().now();
    std::chrono::nanoseconds limit = std::min<std::chrono::nanoseconds>(kAwakeLook, end - now);
    for (const Active& active : active_) {
      if (!active.link->is_open()) limit = std::min<std::chrono::nanoseconds>(limit, kConnectLook);
      if (const auto due = active.link->due()) limit = std::min<std::chrono::nanoseconds>(limit, *due - now);
      if (active.link->fd() >= 0) fds_.push_back({active.link->fd(), active.link->events(), 0});
    }
    wait.block(fds_, std::max(limit, std::chrono::nanoseconds(0)));
    if (fds_.front().revents != 0) wakeup_->clear();
  }

  const std::shared_ptr<Hub> hub_;
  const std::uint64_t number_;
  const std::shared_ptr<Wakeup> wakeup_;
  std::map<int, std::unique_ptr<Link>> links_;
  std::vector<Active> active_;
  std::vector<pollfd> fds_;
  WaitHabit waiting_;
  TimePoint next_look_{};
  int suspect_ = 0;
  std::atomic<bool> is_interrupted_{false};
};

Circle::Circle(std::shared_ptr<Hub> hub, std::uint64_t number)
    : impl_(std::make_unique<Impl>(std::move(hub), number)) {}
Circle::~Circle() = default;
void Circle::exchange(const Exchange& exchange) { impl_->exchange(exchange); }
int Circle::suspect() const noexcept { return impl_->suspect(); }
void Circle::interrupt() noexcept { impl_->interrupt(); }

}  // namespace lockstep::wire
