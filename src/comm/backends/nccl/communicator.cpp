// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/nccl/communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "comm/core/device_advice.h"

namespace lockstep::comm {
namespace {

// A call to a connected communicator completes within about 20 us: a sleeping thread would wake too late.
constexpr auto kYield = std::chrono::microseconds(200);
constexpr auto kPoll = std::chrono::microseconds(100);
// NCCL's time limit is longer by this much, so that the hosts' comparison and the watch report first: they know which
// rank is missing.
constexpr auto kSettleGrace = std::chrono::seconds(5);
constexpr auto kFinalizeLimit = std::chrono::seconds(10);
// How long abort() waits for a call to return on its own, which it does if it is not blocked.
constexpr auto kLeaveLimit = std::chrono::milliseconds(100);
// The interval of the hosts' check while connecting, which takes about 100 ms; the check may query the store.
constexpr auto kHostLook = std::chrono::milliseconds(100);
// How much later than NCCL the hosts may notice a death.
constexpr auto kNamingLimit = std::chrono::seconds(1);

ResourceError nccl_error(const char* call, const std::string& text) {
  const auto advice = nccl_advice(text);
  return ResourceError(
      fmt::format("{} failed: {}{}", call, advice ? advice->cause + " (" : "", text) + (advice ? ")" : ""),
      advice ? advice->remedy : "NCCL_DEBUG=INFO shows more");
}

/// Waits for a key in the store. Throws: the exceptions of `check`.
std::string get_checked(Store& store, const std::string& key, std::chrono::milliseconds timeout,
                        const CheckOfHosts& check) {
  const TimePoint end = AwakeClock::instance().now() + timeout;
  while (AwakeClock::instance().now() + kHostLook < end) {
    try {
      return store.get(key, kHostLook);
    } catch (const TimeoutError&) {
      check();
    }
  }
  return store.get(key, kHostLook);
}

/// Gives the hosts time to name the rank to blame for an NCCL error.
void let_hosts_name(const CheckOfHosts& check) {
  const TimePoint end = AwakeClock::instance().now() + kNamingLimit;
  while (AwakeClock::instance().now() < end) {
    check();
    std::this_thread::sleep_for(kHostLook);
  }
}

}  // namespace

const nccl::Functions& nccl_calls() { return nccl::library().functions; }

/// Marks, during its lifetime, that a call is inside the communicator.
class NcclCommunicator::Visit {
 public:
  explicit Visit(NcclCommunicator& owner) : owner_(owner) {
    const std::lock_guard lock(owner_.mutex_);
    owner_.require_alive();
    comm_ = owner_.comm_;
    owner_.is_under_way_ = owner_.is_inside_ = true;
  }
  ~Visit() {
    leave();
    const std::lock_guard lock(owner_.mutex_);
    owner_.is_under_way_ = false;
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  [[nodiscard]] nccl::Comm comm() const { return comm_; }
  /// Records that the call itself has returned.
  void leave() {
    const std::lock_guard lock(owner_.mutex_);
    owner_.is_inside_ = false;
    owner_.left_.notify_all();
  }

 private:
  NcclCommunicator& owner_;
  nccl::Comm comm_ = nullptr;
};

NcclCommunicator::~NcclCommunicator() {
  if (std::uncaught_exceptions() > 0 || !finalize()) abort();
}

nccl::UniqueId NcclCommunicator::meet_for_id(const World& world, const CheckOfHosts& check) const {
  const std::string key = world.prefix + "nccl/id";
  nccl::UniqueId id;
  if (world.rank == 0) {
    const nccl::Result result = nccl_calls().get_unique_id(&id);
    if (result != nccl::kSuccess) throw nccl_error("ncclGetUniqueId", nccl_calls().get_error_string(result));
    if (world.size > 1) world.store->set(key, std::string(id.internal, sizeof(id.internal)));
    return id;
  }
  const std::string bytes = get_checked(*world.store, key, timeout_, check);
  if (bytes.size() != sizeof(id.internal)) throw InternalError("the NCCL id in the store has the wrong length");
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

void NcclCommunicator::connect(const World& world, const CheckOfHosts& check) {
  const nccl::UniqueId id = meet_for_id(world, check);
  nccl::Config config;
  config.blocking = 0;
  const char* name = "ncclCommInitRank";
  nccl::Result result = nccl_calls().comm_init_rank_config(&comm_, world.size, id, world.rank, &config);
  try {
    if (result == nccl::kInProgress) result = settle(AwakeClock::instance().now() + timeout_ + kSettleGrace, check);
    if (result != nccl::kSuccess && result != nccl::kInProgress) let_hosts_name(check);
    require(result, name);
  } catch (...) {
    abort();
    throw;
  }
}

void NcclCommunicator::run(const char* name, const Call& call) {
  Visit visit(*this);
  nccl::Result result = call(visit.comm());
  visit.leave();
  if (result == nccl::kInProgress) result = settle(AwakeClock::instance().now() + timeout_ + kSettleGrace);
  require(result, name);
}

void NcclCommunicator::run_as_one(const char* name, const std::vector<Call>& calls) {
  run(name, [&](nccl::Comm comm) {
    nccl::Result result = nccl_calls().group_start();
    if (result != nccl::kSuccess) return result;
    for (const Call& call : calls) {
      result = call(comm);
      if (result != nccl::kSuccess && result != nccl::kInProgress) break;
    }
    // The group is closed in any case: an open group would swallow every later call of this thread.
    const nccl::Result end = nccl_calls().group_end();
    return result == nccl::kSuccess || result == nccl::kInProgress ? end : result;
  });
}

void NcclCommunicator::require_alive() const {
  if (aborted_) throw ResourceError("the NCCL communicator was aborted");
}

std::optional<std::string> NcclCommunicator::problem() {
  const std::lock_guard lock(mutex_);
  if (is_under_way_ || aborted_ || comm_ == nullptr) return std::nullopt;
  nccl::Result state = nccl::kSuccess;
  if (nccl_calls().comm_get_async_error(comm_, &state) != nccl::kSuccess) return "ncclCommGetAsyncError failed";
  if (state == nccl::kSuccess || state == nccl::kInProgress) return std::nullopt;
  return error_text(state);
}

void NcclCommunicator::abort() noexcept {
  aborted_ = true;
  std::unique_lock lock(mutex_);
  (void)left_.wait_for(lock, kLeaveLimit, [this] { return !is_inside_; });
  const nccl::Comm comm = std::exchange(comm_, nullptr);
  lock.unlock();  // a blocked call returns during the abort
  if (comm != nullptr) (void)nccl_calls().comm_abort(comm);
}

/// Returns: false if the communicator did not finish within a moment and still exists.
bool NcclCommunicator::finalize() {
  if (aborted_ || comm_ == nullptr) return true;
  nccl::Result state = nccl_calls().comm_finalize(comm_);
  if (state == nccl::kInProgress) state = settle(AwakeClock::instance().now() + kFinalizeLimit);
  if (state != nccl::kSuccess) return false;
  (void)nccl_calls().comm_destroy(std::exchange(comm_, nullptr));
  return true;
}

/// Waits until a call of the non-blocking communicator has completed. With `check` it also checks the hosts.
nccl::Result NcclCommunicator::settle(TimePoint end, const CheckOfHosts& check) {
  nccl::Result state = nccl::kInProgress;
  const TimePoint begin = AwakeClock::instance().now();
  TimePoint look = begin + kHostLook;
  for (TimePoint now = begin; !aborted_ && now < end; now = AwakeClock::instance().now()) {
    state = poll();
    if (state != nccl::kInProgress) break;
    if (now - begin < kYield) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPoll);
    }
    if (check == nullptr || now < look) continue;
    check();
    look = now + kHostLook;
  }
  return state;
}

nccl::Result NcclCommunicator::poll() {
  const std::lock_guard lock(mutex_);
  nccl::Result state = nccl::kInProgress;
  if (comm_ == nullptr) return state;  // aborted
  return nccl_calls().comm_get_async_error(comm_, &state) == nccl::kSuccess ? state : nccl::kSystemError;
}

void NcclCommunicator::require(nccl::Result result, const char* name) {
  if (result == nccl::kSuccess) return;
  require_alive();
  if (result != nccl::kInProgress) throw error_of(name, result);
  throw TimeoutError(fmt::format("{} timed out after {:.1f} s", name, std::chrono::duration<double>(timeout_).count()),
                     nccl_hang_advice().remedy + "; or " + timeout_hint());
}

ResourceError NcclCommunicator::error_of(const char* name, nccl::Result result) {
  const std::lock_guard lock(mutex_);
  return nccl_error(name, error_text(result));
}

std::string NcclCommunicator::error_text(nccl::Result result) const {
  const char* last = comm_ == nullptr ? nullptr : nccl_calls().get_last_error(comm_);
  return fmt::format("{} {}", nccl_calls().get_error_string(result), last == nullptr ? "" : last);
}

}  // namespace lockstep::comm
