// SPDX-License-Identifier: Apache-2.0
#include "comm/device_watch.h"

#include <fmt/format.h>

#include "comm/nccl/advice.h"
#include "lockstep/base/error.h"
#include "lockstep/base/signal_guard.h"
#include "lockstep/tensor/device.h"

namespace lockstep::comm {
namespace {

// Asking a GPU costs a microsecond; a verdict may be a millisecond late.
constexpr auto kDeviceLook = std::chrono::milliseconds(1);

std::exception_ptr problem_error(const World& world, const Collective& collective, const std::string& problem) {
  const auto advice = nccl_advice(problem);
  const std::string message = fmt::format("{} failed on the GPU ({}): {}", name_of(collective.what.kind),
                                          context_text(collective, world.size), advice ? advice->cause : problem);
  return std::make_exception_ptr(ResourceError(
      message, advice ? advice->remedy : "NCCL_DEBUG=INFO shows more; CUDA_LAUNCH_BLOCKING=1 shows where"));
}

std::exception_ptr hang_error(const World& world, const Collective& collective) {
  const NcclAdvice advice = nccl_hang_advice();
  return std::make_exception_ptr(
      TimeoutError(fmt::format("{} timed out on the GPU after {:.1f} s ({}): {}", name_of(collective.what.kind),
                               std::chrono::duration<double>(collective.timeout).count(),
                               context_text(collective, world.size), advice.cause),
                   advice.remedy));
}

}  // namespace

DeviceWatch::~DeviceWatch() { stop(); }

void DeviceWatch::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceWatch::start() {
  const SignalGuard guard;
  thread_ = std::thread([this] { run(); });
}

void DeviceWatch::add(Entry entry) {
  const std::lock_guard lock(mutex_);
  entries_.push_back(std::move(entry));
  if (entries_.size() == 1) changed_.notify_all();
}

std::exception_ptr DeviceWatch::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::size_t DeviceWatch::under_way() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

/// Null: it is done, or may go on.
std::exception_ptr DeviceWatch::verdict(const Entry& entry, Time now) const {
  // First of all: after an error of its own a transport may end what it leaves undone.
  if (const auto problem = hooks_.problem()) return problem_error(world_, entry.collective, *problem);
  if (entry.event->is_done()) return nullptr;
  const bool met = entry.meeting == nullptr || entry.meeting->is_done();
  try {
    if (met && entry.meeting != nullptr) entry.meeting->wait();  // throws what the comparison found
    if (hooks_.check_group) hooks_.check_group(entry.collective);
  } catch (...) {
    return std::current_exception();
  }
  // Whom a meeting waits for the meeting itself will say.
  return met && now >= entry.collective.deadline ? hang_error(world_, entry.collective) : nullptr;
}

std::size_t DeviceWatch::look(Time now) {
  std::optional<Entry> front;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_ && !entries_.empty()) front = entries_.front();
  }
  if (front) {
    if (const std::exception_ptr error = verdict(*front, now)) {
      hooks_.failed(error);
      const std::lock_guard lock(mutex_);
      failure_ = error;
    }
  }
  std::deque<Entry> done;  // whose tensors go without the lock
  const std::lock_guard lock(mutex_);
  while (!entries_.empty() && entries_.front().event->is_done()) {
    done.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
  return entries_.size();
}

void DeviceWatch::run() noexcept {
  tensor::adopt_device();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !entries_.empty(); });
    if (stopping_) return;
    lock.unlock();
    (void)look(std::chrono::steady_clock::now());
    lock.lock();
    changed_.wait_for(lock, kDeviceLook, [this] { return stopping_; });
  }
}

}  // namespace lockstep::comm
