// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/tcp/tcp_transport.h"

#include <fmt/format.h>
#include <poll.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "comm/backends/tcp/link.h"
#include "comm/backends/tcp/patient_wait.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::comm::tcp {
namespace {

// How often a rank that waits for others to connect asks whether one has failed.
constexpr auto kConnectLook = std::chrono::milliseconds(100);

/// The watch has interrupted the exchange.
struct Interrupted {};

class TcpTransport final : public Transport {
 public:
  TcpTransport(std::shared_ptr<TcpHub> hub, std::string label)
      : hub_(std::move(hub)),
        label_(std::move(label)),
        circle_(XXH3_64bits(label_.data(), label_.size())),
        wakeup_(std::make_shared<Wakeup>()) {
    hub_->listener().watch(circle_, wakeup_);
  }
  ~TcpTransport() override { hub_->listener().watch(circle_, nullptr); }

  std::string name() const override { return "tcp"; }
  const World& world() const override { return hub_->state().world; }
  bool tells_wrong_lengths() const noexcept override { return true; }
  std::unique_ptr<Runner> open_channel(int peer, bool sending) override;

  void abort() noexcept override {
    NetworkState& state = hub_->state();
    if (!state.aborted.exchange(true)) state.watch.raise(state.world.rank);
  }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Collective& collective) override {
    exchange_in_parts(sends, receives, collective, {});
  }

  void exchange_in_parts(const std::vector<Message>& sends, const std::vector<Message>& receives,
                         const Collective& collective, const Arrived& arrived) override {
    NetworkState& state = hub_->state();
    if (state.aborted) throw PeerError("the group was aborted");
    std::atomic<bool> is_over{false};
    is_interrupted_ = false;
    const auto interrupt = [this] {
      is_interrupted_ = true;
      wakeup_->wake();
    };
    int suspect = world().rank;
    try {
      const ExchangeWatch::Scope scope(state.watch, {collective, interrupt, is_over});
      run({sends, receives, collective, arrived}, suspect);
    } catch (const ConnectionLost& lost) {
      log::debug("tcp: rank {}: {}", suspect, lost.what());
      throw_failure(state, {collective, suspect, is_over, lost.what()});
    } catch (const Interrupted&) {
      throw_failure(state, {collective, suspect, is_over});
    }
  }

 private:
  struct Exchange {
    const std::vector<Message>& sends;
    const std::vector<Message>& receives;
    const Collective& collective;
    const Arrived& arrived;
  };

  /// A link that has something to do in an exchange.
  struct Active {
    Link* link = nullptr;
    std::vector<Message> sends;
    std::vector<Message> receives;
    bool has_begun = false;
    std::size_t awaited = 0;  ///< bytes
  };

  Link& link_to(int peer) {
    auto& link = links_[peer];
    if (!link) link = std::make_unique<Link>(*hub_, circle_, peer);
    return *link;
  }

  Active& active_for(int peer) {
    for (Active& active : active_) {
      if (active.link->peer() == peer) return active;
    }
    active_.push_back({&link_to(peer), {}, {}, false, 0});
    return active_.back();
  }

  void run(const Exchange& exchange, int& suspect) {
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
        suspect = active.link->peer();
        has_moved = step(active) || has_moved;
      }
      tell_arrived(exchange);
      const bool is_done = drop_finished();
      if (is_done) return;
      suspect = active_.front().link->peer();
      if (is_interrupted_) throw Interrupted{};
      if (has_moved) {
        wait.moved();
      } else if (!wait.spin()) {
        look_for_failures(exchange.collective);
        wait_for_any(wait);
      }
    }
  }

  bool step(Active& active) {
    if (!active.link->is_open()) {
      if (!active.link->connect()) return false;
      if (!active.link->is_open()) return true;
    }
    Connection& connection = active.link->connection();
    if (!std::exchange(active.has_begun, true)) {
      connection.start();
      for (const Message& message : active.receives) {
        connection.expect(message.data, message.bytes);
        active.awaited += message.bytes;
      }
      for (const Message& message : active.sends) connection.send(message.data, message.bytes);
    }
    return connection.step();
  }

  /// Says how much of every message has come.
  void tell_arrived(const Exchange& exchange) {
    if (!exchange.arrived) return;
    // Finished links have left the list: their messages are there.
    std::size_t least = exchange.receives.empty() ? 0 : exchange.receives.front().bytes;
    for (const Active& active : active_) {
      if (active.receives.empty()) continue;
      const std::size_t of_each = active.receives.front().bytes;
      const std::size_t have = active.has_begun ? active.link->connection().received() : 0;
      const std::size_t whole = (active.receives.size() - 1) * of_each;  // only of the last message a part is missing
      least = std::min(least, have > whole ? have - whole : 0);
    }
    if (least > 0) exchange.arrived(least);
  }

  /// Returns true where none is left.
  bool drop_finished() {
    const auto is_finished = [](const Active& active) {
      return active.has_begun && active.link->connection().is_sent() && active.link->connection().is_received();
    };
    active_.erase(std::remove_if(active_.begin(), active_.end(), is_finished), active_.end());
    return active_.empty();
  }

  /// A rank that dies before it is connected closes no connection.
  void look_for_failures(const Collective& collective) {
    const auto unconnected =
        std::find_if(active_.begin(), active_.end(), [](const Active& active) { return !active.link->is_open(); });
    const TimePoint now = AwakeClock::instance().now();
    if (unconnected == active_.end() || now < next_look_) return;
    next_look_ = now + kConnectLook;
    World world = hub_->state().world;
    world.patience = std::chrono::milliseconds(0);
    if (first_failure(world)) throw_death(hub_->state().world, unconnected->link->peer(), collective);
  }

  void wait_for_any(PatientWait& wait) {
    fds_.clear();
    fds_.push_back({wakeup_->fd(), POLLIN, 0});
    std::chrono::nanoseconds limit = kAwakeLook;
    const TimePoint now = AwakeClock::instance().now();
    for (const Active& active : active_) {
      if (!active.link->is_open()) limit = std::min<std::chrono::nanoseconds>(limit, kConnectLook);
      if (const auto due = active.link->due()) limit = std::min<std::chrono::nanoseconds>(limit, *due - now);
      if (active.link->fd() >= 0) fds_.push_back({active.link->fd(), active.link->events(), 0});
    }
    wait.block(fds_, std::max(limit, std::chrono::nanoseconds(0)));
    if (fds_.front().revents != 0) wakeup_->clear();
  }

  const std::shared_ptr<TcpHub> hub_;
  const std::string label_;
  const std::uint64_t circle_;
  const std::shared_ptr<Wakeup> wakeup_;
  std::map<int, std::unique_ptr<Link>> links_;
  std::vector<Active> active_;
  std::vector<pollfd> fds_;
  WaitHabit waiting_;
  TimePoint next_look_{};
  std::atomic<bool> is_interrupted_{false};
};

/// Messages to or from one rank, over a connection of their own: the other threads' messages do not wait for them.
class TcpChannel final : public Runner {
 public:
  TcpChannel(std::shared_ptr<Transport> transport, int peer, bool sending)
      : transport_(std::move(transport)), peer_(peer), sending_(sending) {}

  void run(const Collective& message) override {
    Descriptor mine = message.what;
    mine.kind = Kind::kSend;
    mine.root = 0;
    Descriptor theirs = mine;
    std::vector<Message> words{
        {peer_, reinterpret_cast<std::byte*>(sending_ ? &mine : &theirs), sizeof(mine)},
        {peer_, sending_ ? const_cast<std::byte*>(message.data) : message.output, message.bytes}};
    try {
      if (sending_) transport_->exchange(words, {}, message);
      if (!sending_) transport_->exchange({}, words, message);
    } catch (const WrongLength&) {
      if (theirs == mine) throw;
    }
    if (theirs != mine) throw mismatch_error(transport_->world(), message.what, peer_, theirs);
  }

  void abort(const std::string& /*reason*/) noexcept override { transport_->abort(); }
  void leave() noexcept override {}

 private:
  const std::shared_ptr<Transport> transport_;
  const int peer_;
  const bool sending_;
};

std::unique_ptr<Runner> TcpTransport::open_channel(int peer, bool sending) {
  const int own = world().rank;
  const std::string label = fmt::format("{}/{}-to-{}", label_, sending ? own : peer, sending ? peer : own);
  return std::make_unique<TcpChannel>(make_tcp_transport(hub_, label), peer, sending);
}

}  // namespace

std::shared_ptr<Transport> make_tcp_transport(std::shared_ptr<TcpHub> hub, std::string label) {
  return std::make_shared<TcpTransport>(std::move(hub), std::move(label));
}

}  // namespace lockstep::comm::tcp
