// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/long_work.h"

#include <unistd.h>

#include <utility>

#include "lockstep/base/resources.h"

namespace lockstep::launch {
namespace {

constexpr auto kBeat = std::chrono::milliseconds(300);
constexpr auto kFresh = std::chrono::milliseconds(1500);
// The time limit for one attempt to reach the store; the destructor waits for it.
constexpr auto kReach = std::chrono::seconds(1);

}  // namespace

LongWorkLink::LongWorkLink(StoreAddress address, std::string key) : address_(std::move(address)), key_(std::move(key)) {
  thread_ = start_thread("that reports long work", [this] { loop(); });
}

LongWorkLink::~LongWorkLink() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    if (store_) store_->shut_down();
  }
  changed_.notify_all();
  thread_.join();
}

void LongWorkLink::publish() {
  const std::lock_guard lock(mutex_);
  wants_publish_ = true;
  changed_.notify_all();
}

bool LongWorkLink::ask(TimePoint now) {
  const std::lock_guard lock(mutex_);
  wants_answer_ = true;
  changed_.notify_all();
  const TimePoint awake = awake_.at(now);
  return heard_ && awake - *heard_ < kFresh;
}

Store& LongWorkLink::store() {
  if (store_) return *store_;
  auto reached = connect_store(address_, kReach);
  const std::lock_guard lock(mutex_);
  store_ = std::move(reached);
  if (is_closed_) store_->shut_down();
  return *store_;
}

// Publishes or reads the key. Its value is not a time, since the nodes' clocks differ; a change of the value shows that
// the operation is still running.
void LongWorkLink::talk(bool publish) {
  if (publish) {
    store().set(key_, std::to_string(::getpid()) + " " + std::to_string(++beats_));
    return;
  }
  std::string value = store().try_get(key_).value_or("");
  const bool is_new = last_ && *last_ != value;
  last_ = std::move(value);
  const std::lock_guard lock(mutex_);
  const TimePoint now = awake_.at(SystemClock::instance().now());
  if (is_new) heard_ = now;
}

void LongWorkLink::loop() {
  std::unique_lock lock(mutex_);
  while (!is_closed_) {
    changed_.wait(lock, [this] { return is_closed_ || wants_publish_ || wants_answer_; });
    if (is_closed_) return;
    const bool publish = std::exchange(wants_publish_, false);
    if (!publish) wants_answer_ = false;
    lock.unlock();
    try {
      talk(publish);
    } catch (const std::exception&) {
      // The store is gone; its heartbeat connection reports the loss.
    }
    lock.lock();
    changed_.wait_for(lock, kBeat, [this] { return is_closed_; });
  }
}

}  // namespace lockstep::launch
