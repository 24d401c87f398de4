// SPDX-License-Identifier: Apache-2.0
// Implements Network with UCX. Ranks publish their addresses in the store.
#include <fmt/format.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/backends/ucx/ucx.h"
#include "comm/backends/ucx/ucx_worker.h"
#include "comm/core/failure.h"
#include "comm/network/network_state.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/store/interface_choice.h"
#include "lockstep/store/store.h"

namespace lockstep::comm {
namespace {

/// The state that all transports of a group share.
struct UcxShared {
  UcxShared(World world, std::string host) : state(std::move(world)), store_host(std::move(host)) {}

  /// Returns the context, which the first call creates. Throws: ResourceError, UsageError for the interface.
  /// Thread-safe: yes.
  [[nodiscard]] std::shared_ptr<UcxContext> context();

  NetworkState state;
  const std::string store_host;

 private:
  std::mutex mutex_;
  std::shared_ptr<UcxContext> context_;
};

/// A transport that creates its worker and publishes its address with the first message. One thread uses it at a time.
class UcxTransport final : public Transport {
 public:
  /// `label` is the same on all ranks of the transport, and unique to it.
  UcxTransport(std::shared_ptr<UcxShared> shared, const std::string& label);

  const World& world() const override { return shared_->state.world; }
  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Collective& collective) override;

 private:
  [[nodiscard]] std::string key(int rank) const;
  void open();
  [[nodiscard]] std::optional<int> run(const std::vector<Message>& sends, const std::vector<Message>& receives,
                                       const Collective& collective, const std::atomic<bool>& stop);
  [[nodiscard]] bool meet(int peer, const Collective& collective, const std::atomic<bool>& stop);

  const std::shared_ptr<UcxShared> shared_;
  const std::string prefix_;
  std::unique_ptr<UcxWorker> worker_;  ///< null before the first message
  bool is_broken_ = false;
};

// The interval at which a rank waiting for another rank's address checks for failures.
constexpr auto kMeetLook = std::chrono::milliseconds(100);
constexpr auto kLinkPatience = std::chrono::milliseconds(2000);
constexpr auto kLinkLook = std::chrono::milliseconds(20);

/// Waits until the interface has the flag "running". UCX uses only interfaces with this flag, and the kernel sets it a
/// moment after the link has come up.
void wait_until_running(const std::string& name) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  const auto end = AwakeClock::instance().now() + kLinkPatience;
  while (::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) == 0 &&
         AwakeClock::instance().now() < end) {
    std::this_thread::sleep_for(kLinkLook);
  }
}

/// Returns UCX's names for the devices to use: every port of a fabric, and the interface that leads to the other ranks.
/// Empty: all devices.
std::string choose_devices(const std::string& store_host, int rank) {
  const auto choice = store::choose_interface(store::wishes_towards(store_host), store::list_interfaces());
  if (!choice || choice->name.empty()) return "";
  wait_until_running(choice->name);
  std::vector<std::string> devices = store::list_fabric_ports();
  devices.push_back(choice->name);
  const auto level = rank == 0 ? log::Level::kNote : log::Level::kInfo;
  if (log::is_enabled(level)) {
    log::write(level, fmt::format("ucx {}: rank {} is reached through {}: {}", ucx_version(), rank, text::join(devices),
                                  choice->reason));
  }
  return fmt::format("{}", fmt::join(devices, ","));
}

std::shared_ptr<UcxContext> UcxShared::context() {
  const std::lock_guard lock(mutex_);
  if (context_) return context_;
  UcxContext::Settings settings{.devices = {}, .peers = state.world.size};
  if (!env::get("UCX_NET_DEVICES")) settings.devices = choose_devices(store_host, state.world.rank);
  context_ = std::make_shared<UcxContext>(settings);
  return context_;
}

UcxTransport::UcxTransport(std::shared_ptr<UcxShared> shared, const std::string& label)
    : shared_(std::move(shared)), prefix_(fmt::format("{}ucx/{}/", shared_->state.world.prefix, label)) {}

std::string UcxTransport::key(int rank) const { return prefix_ + std::to_string(rank); }

void UcxTransport::open() {
  worker_ = std::make_unique<UcxWorker>(shared_->context(), world().rank);
  world().store->set(key(world().rank), worker_->address());
}

void UcxTransport::exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                            const Collective& collective) {
  NetworkState& state = shared_->state;
  if (state.aborted || is_broken_) throw PeerError("the group was aborted");
  if (!worker_) open();
  std::optional<int> suspect;
  std::atomic<bool> is_over{false};
  {
    std::atomic<bool> stop{false};
    const auto interrupt = [&] {
      stop = true;
      worker_->wake();
    };
    const ExchangeWatch::Scope scope(state.watch, {collective, interrupt, is_over});
    suspect = run(sends, receives, collective, stop);
  }
  if (!suspect) return;
  is_broken_ = true;
  const std::string why = worker_->why();
  // After a timeout the connections stay open until the failure is known: a rank that times out a moment later would
  // otherwise find this rank dead, not late.
  if (!is_over) worker_->drop();
  try {
    throw_failure(state, {collective, *suspect, is_over, why});
  } catch (...) {
    worker_->drop();
    throw;
  }
}

/// Returns the rank that caused the failure; none if the exchange succeeded.
std::optional<int> UcxTransport::run(const std::vector<Message>& sends, const std::vector<Message>& receives,
                                     const Collective& collective, const std::atomic<bool>& stop) {
  for (const auto* messages : {&receives, &sends}) {
    for (const Message& message : *messages) {
      if (message.bytes > 0 && !worker_->knows(message.rank) && !meet(message.rank, collective, stop)) {
        return message.rank;
      }
    }
  }
  return worker_->carry(sends, receives, stop);
}

/// Waits for the address of `peer`. Returns false if the wait was stopped.
bool UcxTransport::meet(int peer, const Collective& collective, const std::atomic<bool>& stop) {
  auto address = world().store->try_get(key(peer));
  while (!address) {
    if (stop) return false;
    if (shared_->state.has_failure()) throw_death(world(), peer, collective);
    try {
      world().store->wait({key(peer)}, kMeetLook);
    } catch (const TimeoutError&) {  // failures are checked before the next try
    }
    address = world().store->try_get(key(peer));
  }
  worker_->add(peer, *address);
  return true;
}

class UcxNetwork final : public Network {
 public:
  UcxNetwork(World world, const std::string& store_host)
      : shared_(std::make_shared<UcxShared>(std::move(world), store_host)) {}

  std::string name() const override { return "ucx"; }
  const World& world() const override { return shared_->state.world; }

  std::shared_ptr<Transport> connect(const std::string& label) override {
    return std::make_shared<UcxTransport>(shared_, label);
  }

  void report_death(int suspect) noexcept override { shared_->state.report_death(suspect); }
  void abort() noexcept override { shared_->state.abort(); }

 private:
  const std::shared_ptr<UcxShared> shared_;
};

}  // namespace

std::string ucx_version() {
  const UcxLibrary& library = ucx_library();
  if (!library.problem.empty()) return "";
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  library.functions.get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::shared_ptr<Network> make_ucx_network(World world, const std::string& store_host) {
  const UcxLibrary& library = ucx_library();
  if (!library.problem.empty()) {
    throw UsageError(fmt::format("UCX cannot be loaded: {}", library.problem),
                     "install libucx0 (Debian's name) on every host, or leave out --wire ucx");
  }
  return std::make_shared<UcxNetwork>(std::move(world), store_host);
}

}  // namespace lockstep::comm
