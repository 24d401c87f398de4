// SPDX-License-Identifier: Apache-2.0
// The store inside a process, and the store that adds a prefix to keys.
#include <condition_variable>
#include <mutex>
#include <utility>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/store/store.h"
#include "store/table.h"

namespace lockstep {
namespace {

class LocalStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const auto lock = open();
    table_.set(key, value);
    changed_.notify_all();
  }

  std::optional<std::string> try_get(const std::string& key) override {
    const auto lock = open();
    return table_.find(key);
  }

  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    auto lock = open();
    wait_locked(lock, {key}, timeout);
    return *table_.find(key);
  }

  std::int64_t add(const std::string& key, std::int64_t delta) override {
    const auto lock = open();
    const auto sum = table_.add(key, delta);
    if (!sum) throw UsageError(store::not_a_counter_message(key));
    changed_.notify_all();
    return *sum;
  }

  std::int64_t append(const std::string& queue, const std::string& value) override {
    const auto lock = open();
    const auto last = table_.append(queue, value);
    changed_.notify_all();
    return last;
  }

  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    const auto lock = open();
    auto value = table_.compare_set(key, expected, desired);
    changed_.notify_all();
    return value;
  }

  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override {
    auto lock = open();
    wait_locked(lock, keys, timeout);
  }

  bool remove(const std::string& key) override {
    const auto lock = open();
    return table_.remove(key);
  }

  void shut_down() noexcept override {
    std::lock_guard lock(mutex_);
    is_shut_down_ = true;
    changed_.notify_all();
  }

 private:
  std::unique_lock<std::mutex> open() {
    std::unique_lock lock(mutex_);
    if (is_shut_down_) throw PeerError("the store was shut down");
    return lock;
  }

  void wait_locked(std::unique_lock<std::mutex>& lock, const std::vector<std::string>& keys,
                   std::chrono::milliseconds timeout) {
    const auto done = [&] { return is_shut_down_ || table_.missing(keys).empty(); };
    if (!wait_awake(changed_, lock, timeout, done)) {
      throw TimeoutError(store::timeout_message(table_.missing(keys), Seconds(timeout).count()));
    }
    if (is_shut_down_) throw PeerError("the store was shut down");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  store::Table table_;
  bool is_shut_down_ = false;
};

class PrefixedStore final : public Store {
 public:
  PrefixedStore(std::shared_ptr<Store> inner, std::string prefix)
      : inner_(std::move(inner)), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::string& value) override { inner_->set(prefix_ + key, value); }
  std::optional<std::string> try_get(const std::string& key) override { return inner_->try_get(prefix_ + key); }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    return inner_->get(prefix_ + key, timeout);
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override { return inner_->add(prefix_ + key, delta); }
  std::int64_t append(const std::string& queue, const std::string& value) override {
    return inner_->append(prefix_ + queue, value);
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return inner_->compare_set(prefix_ + key, expected, desired);
  }
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override {
    std::vector<std::string> full = keys;
    for (auto& key : full) key.insert(0, prefix_);
    inner_->wait(full, timeout);
  }
  bool remove(const std::string& key) override { return inner_->remove(prefix_ + key); }
  void shut_down() noexcept override { inner_->shut_down(); }

 private:
  std::shared_ptr<Store> inner_;
  std::string prefix_;
};

}  // namespace

std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix) {
  return std::make_shared<PrefixedStore>(std::move(store), std::move(prefix));
}

std::shared_ptr<Store> make_local_store() { return std::make_shared<LocalStore>(); }

}  // namespace lockstep
