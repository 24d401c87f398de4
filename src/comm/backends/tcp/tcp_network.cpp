// SPDX-License-Identifier: Apache-2.0
// How the ranks of a group find each other: each listens once, and says in the store where.
#include <fmt/format.h>
#include <unistd.h>

#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include "comm/backends/tcp/tcp.h"
#include "comm/backends/tcp/tcp_transport.h"
#include "comm/network/roll_call.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/store/interface_choice.h"
#include "lockstep/store/store.h"

namespace lockstep::comm::tcp {
namespace {

// How long a look at the store waits for a rank's address.
constexpr auto kAddressLook = std::chrono::milliseconds(100);

/// Which of this host's addresses the others use. Rank 0 says why.
std::string choose_address(const std::string& store_host, int rank) {
  const auto choice = store::choose_interface(store::wishes_towards(store_host), store::list_interfaces());
  if (!choice) {
    char name[256] = "localhost";
    (void)::gethostname(name, sizeof(name) - 1);
    return store::address_towards(name).value_or("127.0.0.1");
  }
  const auto level = rank == 0 ? log::Level::kNote : log::Level::kInfo;
  const std::string of = choice->name.empty() ? "" : fmt::format(" of {}", choice->name);
  if (log::is_enabled(level)) {
    log::write(level, fmt::format("tcp: rank {} is reached at {}{}: {}", rank, choice->address, of, choice->reason));
  }
  return choice->address;
}

class TcpNetwork final : public Network, public TcpHub, public std::enable_shared_from_this<TcpNetwork> {
 public:
  TcpNetwork(World world, const TcpOptions& options)
      : state_(std::move(world)),
        prefix_(state_.world.prefix + "tcp/"),
        options_(options),
        is_encrypted_(options.wire != Wire::kPlain),
        own_nonce_(make_nonce()) {}

  std::string name() const override { return "tcp"; }
  const World& world() const override { return state_.world; }

  std::shared_ptr<Transport> connect(const Circle& circle, const Collective* /*collective*/) override {
    join();
    return make_tcp_transport(shared_from_this(), circle.label);
  }

  void report_death(int suspect) noexcept override {
    state_.watch.raise(suspect);
    (void)call_roll(state_.world, suspect);
  }

  void abort() noexcept override {
    if (!state_.aborted.exchange(true)) state_.watch.raise(state_.world.rank);
  }

  NetworkState& state() override { return state_; }
  Listener& listener() override { return *listener_; }
  const std::string& key() const override { return key_; }
  const std::string& own_nonce() const override { return own_nonce_; }
  bool is_encrypted() const override { return is_encrypted_; }
  std::chrono::milliseconds timeout() const override { return options_.timeout; }

  std::optional<Place> place_of(int rank) override {
    std::string said;
    try {
      said = state_.world.store->get(place_key(rank), kAddressLook);
    } catch (const TimeoutError&) {
      return std::nullopt;
    }
    std::istringstream words(said);
    std::string address;
    std::string port;
    std::string nonce;
    words >> address >> port >> nonce;
    Place place{.endpoint = {address, static_cast<std::uint16_t>(text::parse_number(port).value_or(0))}, .nonce = ""};
    place.nonce = from_hex(nonce);
    return place;
  }

 private:
  [[nodiscard]] std::string place_key(int rank) const { return fmt::format("{}at/{}", prefix_, rank); }

  /// Listens, and says where. Channels connect in threads of their own.
  void join() {
    const std::lock_guard lock(mutex_);
    if (listener_) return;
    const World& world = state_.world;
    const std::string seed = world.store->compare_set(prefix_ + "seed", "", to_hex(make_nonce()));
    key_ = wire_key(options_.token, seed);
    auto listener =
        std::make_unique<Listener>(Listener::Options{.address = choose_address(options_.store_host, world.rank),
                                                     .key = key_,
                                                     .nonce = own_nonce_,
                                                     .rank = world.rank,
                                                     .size = world.size,
                                                     .is_encrypted = is_encrypted_});
    const Endpoint at = listener->endpoint();
    world.store->set(place_key(world.rank), fmt::format("{} {} {}", at.address, at.port, to_hex(own_nonce_)));
    listener_ = std::move(listener);
  }

  NetworkState state_;
  const std::string prefix_;
  const TcpOptions options_;
  const bool is_encrypted_;
  const std::string own_nonce_;
  std::mutex mutex_;  ///< of join()
  std::string key_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace
}  // namespace lockstep::comm::tcp

namespace lockstep::comm {

std::shared_ptr<Network> make_tcp_network(World world, const TcpOptions& options) {
  return std::make_shared<tcp::TcpNetwork>(std::move(world), options);
}

}  // namespace lockstep::comm
