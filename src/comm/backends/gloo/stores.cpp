// SPDX-License-Identifier: Apache-2.0
// Both directions: our Store for Gloo, and torchrun's TCPStore for us.
#include "comm/backends/gloo/stores.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/backends/gloo/gloo.h"
#include "comm/core/failure.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::comm {
namespace {

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

}  // namespace

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

}  // namespace lockstep::comm
