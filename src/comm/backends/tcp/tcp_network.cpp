// SPDX-License-Identifier: Apache-2.0
// Implements Network with circles of the wire, and finds the rank to blame if an exchange of a group fails.
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <mutex>
#include <utility>

#include "comm/backends/tcp/tcp.h"
#include "comm/network/network_state.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/store/interface_choice.h"

namespace lockstep::comm {
namespace {

/// Chooses the address of this host to which other ranks connect. Rank 0 logs the reason.
std::string choose_address(const std::string& store_host, int rank) {
  const auto choice = store::choose_interface(store::wishes_towards(store_host), store::list_interfaces());
  if (!choice) {
    char name[256] = "localhost";
    (void)::gethostname(name, sizeof(name) - 1);
    return store::address_towards(name).value_or("127.0.0.1");
  }
  const auto level = rank == 0 ? log::Level::kNote : log::Level::kInfo;
  const std::string interface_words = choice->name.empty() ? "" : fmt::format(" of {}", choice->name);
  if (log::is_enabled(level)) {
    log::write(level, fmt::format("tcp: rank {} is reached at {}{}: {}", rank, choice->address, interface_words,
                                  choice->reason));
  }
  return choice->address;
}

class TcpTransport final : public Transport {
 public:
  TcpTransport(std::shared_ptr<NetworkState> state, std::shared_ptr<wire::Hub> hub, std::string_view label)
      : state_(std::move(state)), circle_(std::move(hub), XXH3_64bits(label.data(), label.size())) {}

  const World& world() const override { return state_->world; }
  bool reports_wrong_lengths() const noexcept override { return true; }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Collective& collective) override {
    exchange_in_parts(sends, receives, collective, {});
  }

  void exchange_in_parts(const std::vector<Message>& sends, const std::vector<Message>& receives,
                         const Collective& collective, const Arrived& arrived) override {
    if (state_->aborted) throw PeerError("the group was aborted");
    std::atomic<bool> is_over{false};
    const auto interrupt = [this] { circle_.interrupt(); };
    const auto look_for_failures = [&](int rank) {
      if (state_->has_failure()) throw_death(world(), rank, collective);
    };
    try {
      const ExchangeWatch::Scope scope(state_->watch, {collective, interrupt, is_over});
      circle_.exchange({.sends = sends, .receives = receives, .arrived = arrived, .not_connected = look_for_failures});
    } catch (const wire::ConnectionLost& lost) {
      log::debug("tcp: rank {}: {}", circle_.suspect(), lost.what());
      throw_failure(*state_, {collective, circle_.suspect(), is_over, lost.what()});
    } catch (const wire::Interrupted& interrupted) {
      // An alarm may be about a rank other than the awaited one.
      const std::string why = is_over ? interrupted.what() : "";
      throw_failure(*state_,
                    {collective, circle_.suspect(), is_over, why.empty() ? "" : fmt::format("not connected: {}", why)});
    }
  }

 private:
  const std::shared_ptr<NetworkState> state_;
  wire::Circle circle_;
};

class TcpNetwork final : public Network {
 public:
  TcpNetwork(World world, TcpOptions options)
      : state_(std::make_shared<NetworkState>(std::move(world))), options_(std::move(options)) {}

  std::string name() const override { return "tcp"; }
  const World& world() const override { return state_->world; }

  std::shared_ptr<Transport> connect(const std::string& label) override {
    return std::make_shared<TcpTransport>(state_, hub(), label);
  }

  void report_death(int suspect) noexcept override { state_->report_death(suspect); }
  void abort() noexcept override { state_->abort(); }

 private:
  /// Returns the hub, which starts listening on the first call. Channels call this on their own threads.
  std::shared_ptr<wire::Hub> hub() {
    const std::lock_guard lock(mutex_);
    if (hub_) return hub_;
    const World& world = state_->world;
    hub_ = wire::open_hub({.store = world.store,
                           .prefix = world.prefix + "tcp/",
                           .rank = world.rank,
                           .size = world.size,
                           .address = choose_address(options_.store_host, world.rank),
                           .token = options_.token,
                           .is_encrypted = options_.wire != Wire::kPlain,
                           .timeout = options_.timeout});
    return hub_;
  }

  const std::shared_ptr<NetworkState> state_;
  const TcpOptions options_;
  std::mutex mutex_;  ///< held in hub()
  std::shared_ptr<wire::Hub> hub_;
};

}  // namespace

std::shared_ptr<Network> make_tcp_network(World world, const TcpOptions& options) {
  return std::make_shared<TcpNetwork>(std::move(world), options);
}

}  // namespace lockstep::comm
