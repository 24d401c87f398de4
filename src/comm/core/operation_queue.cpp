// SPDX-License-Identifier: Apache-2.0
#include "comm/core/operation_queue.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <string>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/invariant.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"
#include "lockstep/base/trace.h"
#include "lockstep/comm/work.h"
#include "lockstep/tensor/device.h"

namespace lockstep {

Work::Work(std::shared_ptr<comm::Operation> operation) noexcept : operation_(std::move(operation)) {}

void Work::wait() {
  if (operation_ != nullptr) operation_->wait();
}

bool Work::is_done() const noexcept { return operation_ == nullptr || operation_->is_done(); }

namespace comm {
namespace {

// After an operation that ran on its caller's thread, the communication thread polls for a while: in a loop of blocking
// collectives, waking it for each one would cost more than the collective.
constexpr auto kNap = std::chrono::microseconds(100);
constexpr auto kQueueCloseLimit = std::chrono::seconds(2);

// The CLOCK_MONOTONIC time, as in the flight recorder.
std::int64_t monotonic_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

void QueuedOperation::wait() {
  if (!is_done()) queue_->wait(*this);
  if (error_) std::rethrow_exception(error_);
}

int OperationQueue::next_number() noexcept {
  static std::atomic<int> next{0};
  return next++;
}

void OperationQueue::start() {
  thread_ = start_thread("for communication", [self = shared_from_this()] { self->thread_loop(); });
}

void OperationQueue::submit(const std::shared_ptr<QueuedOperation>& operation) {
  const std::int64_t now = monotonic_ns();
  const std::lock_guard lock(mutex_);
  operation->called_ns_ = now;
  operation->collective_.call.sequence = ++sequence_;
  operation->queue_ = shared_from_this();
  if (closed_ && !failure_)
    failure_ = std::make_exception_ptr(UsageError("a collective was called after this rank left the job"));
  if (failure_) {
    operation->error_ = failure_;
    operation->done_.store(true, std::memory_order_release);
    return;
  }
  pending_.push_back(operation);
  if (asleep_ || pending_.size() > 1) work_.notify_one();
}

void OperationQueue::wait(QueuedOperation& operation) {
  std::int64_t none = 0;
  operation.waited_ns_.compare_exchange_strong(none, monotonic_ns(), std::memory_order_relaxed);
  Lock lock(mutex_);
  while (!operation.is_done()) {
    LOCKSTEP_INVARIANT(running_ || !pending_.empty(), "operation {} waits in an idle queue",
                       operation.collective_.call.sequence);
    if (!running_ && pending_.front().get() == &operation) {
      ++inline_runs_;
      run_front(lock, true);
    } else {
      finished_.wait(lock);
    }
  }
}

// Returns the local time: "12:03:04.056".
std::string clock_text() {
  const auto now = std::chrono::system_clock::now();
  const auto whole = std::chrono::floor<std::chrono::seconds>(now);
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(now - whole).count();
  return fmt::format("{:%H:%M:%S}.{:03d}", fmt::localtime(std::chrono::system_clock::to_time_t(whole)), part);
}

// Logs an operation: with LOCKSTEP_LOG=trace every operation, with LOCKSTEP_LOG=debug only barriers.
class OperationLog {
 public:
  explicit OperationLog(const Collective& collective) : collective_(collective), rank_(fault::noted_rank()) {
    const bool is_barrier = collective.call.kind == Kind::kBarrier;
    is_on_ = log::is_enabled(is_barrier ? log::Level::kDebug : log::Level::kTrace);
    if (!is_on_) return;
    begin_ = std::chrono::steady_clock::now();
    say(fmt::format("rank {} begins {} {} ({}) at {}", rank_, name(), collective.call.sequence,
                    text::bytes(collective.bytes), clock_text()));
  }
  ~OperationLog() {
    if (!is_on_) return;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin_;
    say(fmt::format("rank {} ends {} {} after {:.3f} ms", rank_, name(), collective_.call.sequence, took.count()));
  }
  OperationLog(const OperationLog&) = delete;
  OperationLog& operator=(const OperationLog&) = delete;

 private:
  [[nodiscard]] const char* name() const { return name_of(collective_.call.kind); }
  void say(const std::string& line) const {
    log::write(collective_.call.kind == Kind::kBarrier ? log::Level::kDebug : log::Level::kTrace, line);
  }

  const Collective& collective_;
  const int rank_;
  bool is_on_ = false;
  std::chrono::steady_clock::time_point begin_;
};

std::exception_ptr OperationQueue::run_operation(QueuedOperation& operation) noexcept {
  Collective& collective = operation.collective_;
  trace::Span span({.name = name_of(collective.call.kind),
                    .sequence = collective.call.sequence,
                    .bytes = collective.bytes,
                    .group = number_,
                    .bucket = collective.bucket,
                    .buckets = collective.buckets,
                    .called_ns = operation.called_ns_});
  const OperationLog lines(collective);
  try {
    collective.timeout = timeout_;
    collective.deadline = AwakeClock::instance().now() + timeout_;
    runner_->run(collective);
    if (operation.finish_) operation.finish_();
    span.waited_since(operation.waited_ns_.load(std::memory_order_relaxed));
    return nullptr;
  } catch (...) {
    span.fail();
    return std::current_exception();
  }
}

void OperationQueue::run_front(Lock& lock, bool caller_waits) {
  LOCKSTEP_INVARIANT(!running_ && !pending_.empty(), "operation {} of group {}, {} are queued", sequence_, number_,
                     pending_.size());
  const std::shared_ptr<QueuedOperation> operation = pending_.front();
  operation->collective_.caller_waits = caller_waits;
  running_ = true;
  lock.unlock();
  const std::exception_ptr error = run_operation(*operation);
  lock.lock();
  running_ = false;
  const auto finish = [](QueuedOperation& done, const std::exception_ptr& why) {
    done.error_ = why;
    done.tensors_ = {};
    done.done_.store(true, std::memory_order_release);
  };
  pending_.pop_front();
  finish(*operation, error);
  if (error) {
    failure_ = error;
    for (const auto& other : pending_) finish(*other, error);
    pending_.clear();
  }
  finished_.notify_all();
  if (caller_waits && !pending_.empty()) work_.notify_one();
}

void OperationQueue::sleep_until_work(Lock& lock) {
  std::uint64_t seen = inline_runs_ - 1;
  while (!closed_ && (running_ || pending_.empty())) {
    if (seen != inline_runs_) {
      seen = inline_runs_;
      work_.wait_for(lock, kNap);
    } else {
      asleep_ = true;
      work_.wait(lock);
      asleep_ = false;
    }
  }
}

void OperationQueue::thread_loop() noexcept {
  tensor::adopt_device();
  Lock lock(mutex_);
  while (true) {
    sleep_until_work(lock);
    if (closed_) break;
    run_front(lock, false);
  }
  finished_.notify_all();
}

void OperationQueue::abort(const std::string& reason) noexcept {
  runner_->abort(reason);
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::make_exception_ptr(PeerError(fmt::format("the group was aborted: {}", reason)));
}

void OperationQueue::check() {
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
  }
  if (failure) std::rethrow_exception(failure);
}

void OperationQueue::close(bool orderly) noexcept {
  Lock lock(mutex_);
  const bool idle = pending_.empty() && !running_;
  if (!idle && !failure_) {
    lock.unlock();
    abort("a rank left the job while its own collectives were under way");
    lock.lock();
  }
  closed_ = true;
  while (pending_.size() > (running_ ? 1U : 0U)) {
    pending_.back()->error_ = failure_;
    pending_.back()->done_.store(true, std::memory_order_release);
    pending_.pop_back();
  }
  work_.notify_all();
  const bool ended = finished_.wait_for(lock, kQueueCloseLimit, [&] { return !running_; });
  lock.unlock();
  if (orderly && ended) runner_->leave();
  if (!thread_.joinable()) return;
  if (ended) {
    thread_.join();
  } else {
    log::warn("a collective is still under way; its thread is abandoned");
    thread_.detach();
  }
}

}  // namespace comm
}  // namespace lockstep
