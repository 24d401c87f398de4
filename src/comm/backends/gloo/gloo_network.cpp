// SPDX-License-Identifier: Apache-2.0
// Who is connected with whom through Gloo, and when.
#include <arpa/inet.h>
#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "comm/backends/gloo/gloo.h"
#include "comm/backends/gloo/gloo_transport.h"
#include "comm/backends/gloo/roll_call.h"
#include "comm/core/failure.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/store/interface_choice.h"
#include "lockstep/store/store.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::comm {
namespace {

/// Our Store as c10d knows one, for Gloo.
class StoreForC10d final : public c10d::Store {
 public:
  StoreForC10d(std::shared_ptr<lockstep::Store> store, std::chrono::milliseconds timeout)
      : c10d::Store(timeout), store_(std::move(store)) {}

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

 private:
  std::shared_ptr<lockstep::Store> store_;
};

using Bytes = std::vector<std::uint8_t>;

std::string to_string(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
Bytes to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// Adapts torchrun's store. TCPStore is thread-safe; its errors are translated here.
class TorchStore final : public Store {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override {
    translate([&] { store_->set(key, to_bytes(value)); });
  }
  std::optional<std::string> try_get(const std::string& key) override {
    std::optional<std::string> value;
    translate([&] {
      if (store_->check({key})) value = to_string(store_->get(key));
    });
    return value;
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    wait({key}, timeout);
    std::string value;
    translate([&] { value = to_string(store_->get(key)); });
    return value;
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override {
    std::int64_t sum = 0;
    translate([&] { sum = store_->add(key, delta); });
    return sum;
  }
  std::int64_t append(const std::string& queue, const std::string& value) override {
    const std::int64_t last = add(queue + "count", 1);
    set(queue + std::to_string(last), value);
    return last;
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    std::string value;
    translate([&] { value = to_string(store_->compareSet(key, to_bytes(expected), to_bytes(desired))); });
    return value;
  }
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override {
    try {
      store_->wait(keys, timeout);
    } catch (const std::exception&) {
      throw TimeoutError(fmt::format("torchrun's store did not get {} within {:.1f} s", text::join(keys),
                                     std::chrono::duration<double>(timeout).count()),
                         timeout_hint());
    }
  }
  bool remove(const std::string& key) override {
    bool removed = false;
    translate([&] { removed = store_->deleteKey(key); });
    return removed;
  }

 private:
  template <class Verb>
  static void translate(const Verb& verb) {
    try {
      verb();
    } catch (const std::exception& problem) {
      throw PeerError(fmt::format("torchrun's store does not answer: {}", problem.what()));
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
};

void StoreForC10d::set(const std::string& key, const Bytes& value) { store_->set(key, to_string(value)); }

Bytes StoreForC10d::compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) {
  return to_bytes(store_->compare_set(key, to_string(expected), to_string(desired)));
}

Bytes StoreForC10d::get(const std::string& key) { return to_bytes(store_->get(key, getTimeout())); }

std::int64_t StoreForC10d::add(const std::string& key, std::int64_t value) { return store_->add(key, value); }

bool StoreForC10d::deleteKey(const std::string& key) { return store_->remove(key); }

bool StoreForC10d::check(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (!store_->try_get(key)) return false;
  }
  return true;
}

std::int64_t StoreForC10d::getNumKeys() {
  throw InternalError("the number of keys was asked of a store that does not count them");
}

void StoreForC10d::wait(const std::vector<std::string>& keys) { store_->wait(keys, getTimeout()); }

void StoreForC10d::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  store_->wait(keys, timeout);
}

// How often a rank that waits for others to connect asks whether one has failed.
constexpr auto kConnectLook = std::chrono::milliseconds(100);

using GlooDevice = std::shared_ptr<::gloo::transport::Device>;

GlooDevice make_device(const std::string& store_host, int rank) {
  const auto choice = store::choose_interface({.gloo = env::get("GLOO_SOCKET_IFNAME"),
                                               .nccl = env::get("NCCL_SOCKET_IFNAME"),
                                               .towards = store::address_towards(store_host)},
                                              store::list_interfaces());
  if (!choice) return c10d::ProcessGroupGloo::createDefaultDevice();
  const auto level = rank == 0 ? log::Level::kNote : log::Level::kInfo;
  const std::string name = choice->name.empty() ? "" : fmt::format(" of {}", choice->name);
  if (log::is_enabled(level)) {
    log::write(level, fmt::format("gloo: rank {} is reached at {}{}: {}", rank, choice->address, name, choice->reason));
  }
  return c10d::ProcessGroupGloo::createDeviceForHostname(choice->address);
}

class GlooNetwork final : public Network {
 public:
  GlooNetwork(World world, std::string store_host, std::chrono::milliseconds timeout)
      : shared_(std::make_shared<GlooShared>(std::move(world))),
        store_host_(std::move(store_host)),
        timeout_(timeout) {}

  std::string name() const override { return "gloo"; }
  const World& world() const override { return shared_->world; }

  std::shared_ptr<Transport> connect(const Circle& circle, const Collective* collective) override {
    GlooConnection connection{shared_, {}, circle.members};
    const World& all = shared_->world;
    if (connection.members.empty()) {
      connection.members.resize(static_cast<std::size_t>(all.size));
      std::iota(connection.members.begin(), connection.members.end(), 0);
    }
    const std::string prefix = fmt::format("{}gloo/{}/", all.prefix, circle.label);
    if (collective != nullptr) meet(prefix, connection.members, *collective);
    connection.group = connect_through(prefix, connection.members);
    return make_gloo_transport(std::move(connection));
  }

  void report_death(int suspect) noexcept override {
    shared_->watch.raise(suspect);
    (void)call_roll(shared_->world, suspect);
  }

  void abort() noexcept override {
    if (!shared_->aborted.exchange(true)) shared_->watch.raise(shared_->world.rank);
  }

 private:
  /// Waits until all members have come. Gloo waits for a member that died as long as for a late one.
  void meet(const std::string& prefix, const std::vector<int>& members, const Collective& collective) {
    const World& all = shared_->world;
    const auto key = [&](int rank) { return fmt::format("{}here/{}", prefix, rank); };
    all.store->set(key(all.rank), "1");
    std::vector<int> absent = members;
    while (true) {
      absent.erase(std::remove_if(absent.begin(), absent.end(),
                                  [&](int rank) { return all.store->try_get(key(rank)).has_value(); }),
                   absent.end());
      if (absent.empty()) return;
      const bool is_over = AwakeClock::instance().now() >= end_of(collective);
      if (has_failed()) throw_death(all, absent.front(), collective);
      if (is_over || shared_->aborted || shared_->watch.ask()) {
        throw_failure(*shared_, {collective, absent.front(), is_over});
      }
      wait_for(key(absent.front()));
    }
  }

  void wait_for(const std::string& key) {
    try {
      shared_->world.store->wait({key}, kConnectLook);
    } catch (const TimeoutError&) {  // whether all is well is asked before the next look
    }
  }

  /// Returns true where the launcher has recorded that a rank failed.
  [[nodiscard]] bool has_failed() const {
    World world = shared_->world;
    world.patience = std::chrono::milliseconds(0);
    return first_failure(world).has_value();
  }

  GlooGroup connect_through(const std::string& prefix, const std::vector<int>& members) {
    const NoSigpipe guard;
    const World& all = shared_->world;
    const auto place = std::lower_bound(members.begin(), members.end(), all.rank) - members.begin();
    try {
      auto store = c10::make_intrusive<StoreForC10d>(with_prefix(all.store, prefix), timeout_);
      auto options = c10d::ProcessGroupGloo::Options::create(timeout_);
      options->devices.push_back(device());
      options->threads = 1;
      return c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(store), static_cast<int>(place),
                                                         static_cast<int>(members.size()), options);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& problem) {
      throw PeerError(
          fmt::format("the ranks could not connect to each other through gloo: {}", problem.what()),
          "every rank must reach every other; GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names the interface to use");
    }
  }

  GlooDevice device() {
    const std::lock_guard lock(mutex_);
    if (!device_) device_ = make_device(store_host_, shared_->world.rank);
    return device_;
  }

  const std::shared_ptr<GlooShared> shared_;
  const std::string store_host_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;  ///< of device_: channels connect in threads of their own
  GlooDevice device_;
};

}  // namespace

std::shared_ptr<Store> connect_torch_store(const WorldPlan& plan, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = plan.port;
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = timeout;
  tensor::without_libuv(options);
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(plan.host, options);
    return std::make_shared<TorchStore>(c10::make_intrusive<c10d::PrefixStore>(plan.prefix, std::move(store)));
  } catch (const std::exception& problem) {
    throw PeerError(fmt::format("torchrun's store at {}:{} does not answer: {}", plan.host, plan.port, problem.what()));
  }
}

bool has_gloo() noexcept { return true; }

std::shared_ptr<Network> make_gloo_network(World world, const std::string& store_host,
                                           std::chrono::milliseconds timeout) {
  return std::make_shared<GlooNetwork>(std::move(world), store_host, timeout);
}

}  // namespace lockstep::comm
