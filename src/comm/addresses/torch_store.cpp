// SPDX-License-Identifier: Apache-2.0
#include "comm/addresses/torch_store.h"

#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#if __has_include(<torch/csrc/distributed/c10d/TCPStore.hpp>)
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#define LOCKSTEP_HAS_TCP_STORE 1
#endif

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "comm/core/failure.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::comm {
#ifdef LOCKSTEP_HAS_TCP_STORE
namespace {

// The first and the longest polling interval of a wait.
constexpr auto kFirstLook = std::chrono::milliseconds(2);
constexpr auto kLastLook = std::chrono::milliseconds(50);

using Bytes = std::vector<std::uint8_t>;

std::string to_string(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
Bytes to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// Adapts torchrun's store. TCPStore is thread-safe; this class translates its errors.
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
  // Polls, because c10d 1.13's wait leaves its response in the connection if the keys arrive after the time limit.
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override {
    const TimePoint end = AwakeClock::instance().now() + timeout;
    for (auto pause = kFirstLook; !has(keys); pause = std::min(2 * pause, kLastLook)) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - AwakeClock::instance().now());
      if (left.count() <= 0) throw_late(keys, timeout);
      std::this_thread::sleep_for(std::min(pause, left));
    }
  }
  bool remove(const std::string& key) override {
    bool removed = false;
    translate([&] { removed = store_->deleteKey(key); });
    return removed;
  }

 private:
  bool has(const std::vector<std::string>& keys) {
    bool found = false;
    translate([&] { found = store_->check(keys); });
    return found;
  }

  [[noreturn]] static void throw_late(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
    throw TimeoutError(fmt::format("{} did not appear in torchrun's store within {:.1f} s", text::join(keys),
                                   std::chrono::duration<double>(timeout).count()),
                       timeout_hint());
  }

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
#else
std::shared_ptr<Store> connect_torch_store(const WorldPlan& /*plan*/, std::chrono::milliseconds /*timeout*/) {
  throw UsageError("this build cannot join torchrun's store: its libtorch has no TCPStore",
                   "start the ranks with lockstep run, or build with a libtorch that has torch.distributed");
}
#endif

}  // namespace lockstep::comm
