// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/key_watcher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/resources.h"

namespace lockstep::launch {
namespace {

constexpr auto kNoLimit = std::chrono::hours(24 * 365);

UniqueFd make_event(int flags) {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | flags));
  if (!event.valid()) throw_cannot("watch the store", errno);
  return event;
}

void notify(const UniqueFd& event) {
  const std::uint64_t one = 1;
  (void)!::write(event.get(), &one, sizeof one);
}

}  // namespace

KeyWatcher::KeyWatcher(const StoreAddress& address, std::string key)
    : store_(connect_store(address, kReachAgain)), event_(make_event(0)) {
  thread_ = start_thread("that watches the store", [this, wanted = std::move(key)] {
    try {
      store_->wait({wanted}, kNoLimit);
    } catch (const std::exception&) {
      // The store is gone, or the destructor has shut it down.
    }
    notify(event_);
  });
}

KeyWatcher::~KeyWatcher() {
  store_->shut_down();
  thread_.join();
}

QueueReader::QueueReader(const StoreAddress& address, std::string queue)
    : store_(connect_store(address, kReachAgain)), event_(make_event(EFD_SEMAPHORE)) {
  thread_ = start_thread("that reads the store", [this, name = std::move(queue)] { read(name); });
}

QueueReader::~QueueReader() {
  store_->shut_down();
  thread_.join();
}

void QueueReader::read(const std::string& queue) {
  try {
    for (std::int64_t number = 1;; ++number) {
      std::string entry = store_->get(queue + std::to_string(number), kNoLimit);
      // The lock makes take() remove an entry together with its notification, so that no stale notification keeps the
      // descriptor readable.
      const std::lock_guard lock(mutex_);
      entries_.push_back(std::move(entry));
      notify(event_);
    }
  } catch (const std::exception&) {
    // The store is gone, and its heartbeat connection reports the loss, or the destructor has shut it down.
  }
}

void QueueReader::wake() { notify(event_); }

std::optional<std::string> QueueReader::take() {
  const std::lock_guard lock(mutex_);
  if (entries_.empty()) return std::nullopt;
  std::uint64_t one = 0;
  (void)!::read(event_.get(), &one, sizeof one);
  std::string entry = std::move(entries_.front());
  entries_.pop_front();
  return entry;
}

}  // namespace lockstep::launch
