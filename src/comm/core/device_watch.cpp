// SPDX-License-Identifier: Apache-2.0
#include "comm/core/device_watch.h"

#include <fmt/format.h>

#include "comm/core/device_advice.h"
#include "comm/core/failure.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"
#include "lockstep/tensor/device.h"

namespace lockstep::comm {
namespace {

// The polling interval: a query of a GPU costs a microsecond, and a failure may be noticed a millisecond late.
constexpr auto kDeviceLook = std::chrono::milliseconds(1);
// The shortest wait that is recorded: each record costs the rank some time.
constexpr auto kLongWait = std::chrono::milliseconds(100);

std::exception_ptr problem_error(const World& world, const Collective& collective, const std::string& problem) {
  const auto advice = nccl_advice(problem);
  const std::string cause = advice ? fmt::format("{} ({})", advice->cause, problem) : problem;
  const std::string message = fmt::format("{} failed on the GPU ({}): {}", name_of(collective.call.kind),
                                          context_text(collective, world.size), cause);
  return std::make_exception_ptr(ResourceError(
      message, advice ? advice->remedy : "NCCL_DEBUG=INFO shows more; CUDA_LAUNCH_BLOCKING=1 shows where"));
}

/// Creates the error for a device that failed itself, so that all work on it is lost.
std::exception_ptr device_error(const World& world, const Collective& collective, const char* message) {
  return std::make_exception_ptr(
      ResourceError(fmt::format("the GPU of {} failed while {} was under way ({}): {}", rank_text(world, world.rank),
                                name_of(collective.call.kind), context_text(collective, world.size),
                                text::without_backtrace(message)),
                    "the kernel that failed may be an earlier one: run again with CUDA_LAUNCH_BLOCKING=1"));
}

std::exception_ptr hang_error(const World& world, const Collective& collective) {
  const NcclAdvice advice = nccl_hang_advice();
  return std::make_exception_ptr(
      TimeoutError(fmt::format("{} timed out on the GPU after {:.1f} s ({}): {}", name_of(collective.call.kind),
                               std::chrono::duration<double>(collective.timeout).count(),
                               context_text(collective, world.size), advice.cause),
                   advice.remedy + "; or " + timeout_hint()));
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
  thread_ = start_thread("that watches the GPU's collectives", [this] { run(); });
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

bool DeviceWatch::note(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = error;
  return true;
}

void DeviceWatch::fail(const std::exception_ptr& error) {
  if (note(error)) hooks_.failed(error);
}

std::exception_ptr DeviceWatch::named(const Collective& collective, const std::exception_ptr& error) const noexcept {
  const Time end = std::chrono::steady_clock::now() + hooks_.naming;
  try {
    while (hooks_.check_group) {
      hooks_.check_group(collective);
      if (std::chrono::steady_clock::now() >= end) break;
      std::this_thread::sleep_for(kDeviceLook);
    }
  } catch (...) {
    return std::current_exception();
  }
  return error;
}

void DeviceWatch::check(Time now) {
  if (!failure()) (void)look(now);
  if (const auto error = failure()) std::rethrow_exception(error);
}

/// Returns the failure of an operation that is not done; null if it may continue.
std::exception_ptr DeviceWatch::verdict(const Entry& entry, Time now) const {
  const bool met = entry.meeting == nullptr || entry.meeting->is_done();
  if (met && entry.meeting != nullptr) entry.meeting->wait();  // throws if the calls differ
  if (hooks_.check_group) hooks_.check_group(entry.collective);
  // The meeting itself reports which rank it waits for.
  return met && now >= end_of(entry.collective) ? hang_error(world_, entry.collective) : nullptr;
}

DeviceWatch::Finding DeviceWatch::examine(const Entry& entry, Time now) const noexcept {
  Finding found;
  try {
    found.done = entry.event->is_done();
  } catch (const std::exception& error) {
    found.error = device_error(world_, entry.collective, error.what());
    return found;
  }
  try {
    // This comes last: after its own error a transport may end its unfinished work.
    if (const auto problem = hooks_.problem()) {
      found.error = named(entry.collective, problem_error(world_, entry.collective, *problem));
    } else if (!found.done) {
      found.error = verdict(entry, now);
    }
  } catch (...) {
    found.error = std::current_exception();
  }
  return found;
}

/// Records a long wait. A rank waiting for its GPU is not in any host collective: without the record it would look as
/// if it had not called the collective.
void DeviceWatch::note_wait(const Entry& front, bool done, Time now) {
  const bool is_long = now >= front.collective.deadline - front.collective.timeout + kLongWait;
  const bool waits = !done && (waits_long_ || is_long);
  if (waits == waits_long_ || !hooks_.on_long_wait) return;
  waits_long_ = waits;
  hooks_.on_long_wait(front.collective, !waits);
}

/// Forgets operations that have ended. After a failure, tensors that a responding device still uses keep their memory.
void DeviceWatch::forget_ended(std::deque<Entry>& ended) {
  const std::lock_guard lock(mutex_);
  try {
    while (!entries_.empty() && entries_.front().event->is_done()) {
      ended.push_back(std::move(entries_.front()));
      entries_.pop_front();
    }
  } catch (const std::exception&) {
    ended.swap(entries_);
    entries_.clear();
  }
}

std::size_t DeviceWatch::look(Time now) {
  std::deque<Entry> ended;  // destroyed last, so that their tensors are freed without the locks
  const std::lock_guard looking(looking_);
  while (!failure()) {
    std::optional<Entry> front;
    {
      const std::lock_guard lock(mutex_);
      if (entries_.empty()) return 0;
      front = entries_.front();
    }
    const Finding found = examine(*front, now);
    note_wait(*front, found.done, now);
    if (found.error) {
      fail(found.error);
      break;
    }
    if (!found.done) return under_way();
    const std::lock_guard lock(mutex_);
    ended.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
  forget_ended(ended);
  return under_way();
}

void DeviceWatch::run() noexcept {
  tensor::adopt_device();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !entries_.empty(); });
    if (stopping_) return;
    lock.unlock();
    (void)look(AwakeClock::instance().now());
    lock.lock();
    changed_.wait_for(lock, kDeviceLook, [this] { return stopping_; });
  }
}

}  // namespace lockstep::comm
