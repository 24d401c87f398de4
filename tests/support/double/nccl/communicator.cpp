// SPDX-License-Identifier: Apache-2.0
#include "communicator.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "numbers.h"
#include "order.h"
#include "queue.h"

namespace lockstep::testing::nccl_double {
namespace {

/// The minimum duration of a call, so that a call from a second thread is detected.
constexpr auto kVisit = std::chrono::microseconds(20);
constexpr auto kSlow = std::chrono::milliseconds(100);

std::byte* memory(const std::byte* begin) { return const_cast<std::byte*>(begin); }

std::atomic<int> calls_of_this_rank{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

Communicator::Communicator(const std::string& name, int rank, int world, bool blocking)
    : boxes_(name), rank_(rank), world_(world), blocking_(blocking) {}

Communicator::Visit::Visit(Communicator& communicator, const char* call) : communicator_(communicator) {
  const char* other = communicator_.inside_.exchange(call);
  if (other != nullptr) {
    end_for(std::string("two threads are in one communicator: one calls ") + other + ", the other " + call);
  }
  if (communicator_.gone_) end_for(std::string(call) + " of a communicator that was finalized or aborted");
  std::this_thread::sleep_for(kVisit);
}

Communicator::Visit::~Visit() { communicator_.inside_ = nullptr; }

nccl::Result Communicator::start(std::function<nccl::Result()> job) {
  if (job_.joinable()) end_for("a call while the one before is in progress");
  if (blocking_) {
    result_ = job();
    return static_cast<nccl::Result>(result_.load());
  }
  result_ = nccl::kInProgress;
  job_ = std::thread([this, job = std::move(job)] {
    const nccl::Result result = job();
    int busy = nccl::kInProgress;
    result_.compare_exchange_strong(busy, result);
  });
  return nccl::kInProgress;
}

void Communicator::end_job() {
  if (job_.joinable()) job_.join();
}

nccl::Result Communicator::state() {
  const auto result = static_cast<nccl::Result>(result_.load());
  if (result != nccl::kInProgress) end_job();
  return result;
}

nccl::Result Communicator::connect() {
  if (!boxes_.is_open()) return nccl::kSystemError;
  return start([this] {
    if (order().call == kInit && order().what == "error") return nccl::kRemoteError;
    return obey(kInit) && boxes_.meet(rank_, world_, aborted_) ? nccl::kSuccess : nccl::kInternalError;
  });
}

nccl::Result Communicator::launch(std::vector<Operation> group) {
  if (result_ == nccl::kInProgress) end_for("a collective while the call before is in progress");
  if (result_ != nccl::kSuccess) return static_cast<nccl::Result>(result_.load());
  end_job();
  if (is_recorded(group.front().stream)) return record(std::move(group));
  const int call = calls_of_this_rank++;
  if (order().what == "full" && order().call == call) return block();
  note_begin();
  return start([this, group = std::move(group), call] {
    enqueue(group, {rank_, world_}, [this, call](const std::vector<Operation>& there) {
      run(there, call);
      note_end();
    });
    return nccl::kSuccess;
  });
}

nccl::Result Communicator::block() {
  blocked_ = true;
  while (!aborted_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  blocked_ = false;
  return nccl::kInternalError;
}

/// Records a group: each replay does its work. The communicator is bound to the graph until the graph is destroyed.
nccl::Result Communicator::record(std::vector<Operation> group) {
  std::shared_ptr<void> bond;
  if (forgets_recordings()) {
    const std::lock_guard lock(mutex_);
    ++recorded_;
    bond = std::shared_ptr<void>(this, [](Communicator* communicator) {
      const std::lock_guard held(communicator->mutex_);
      --communicator->recorded_;
      communicator->ended_.notify_all();
    });
  }
  return start([this, group = std::move(group), bond] {
    enqueue(group, {rank_, world_}, [this, bond](const std::vector<Operation>& there) {
      note_begin();
      run(there, calls_of_this_rank++);
      note_end();
    });
    return nccl::kSuccess;
  });
}

void Communicator::note_begin() {
  const std::lock_guard lock(mutex_);
  ++under_way_;
}

void Communicator::note_end() {
  const std::lock_guard lock(mutex_);
  --under_way_;
  ended_.notify_all();
}

nccl::Result Communicator::finalize() {
  end_job();
  const nccl::Result result = start([this] {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return under_way_ == 0; });
    return nccl::kSuccess;
  });
  return result;
}

void Communicator::destroy() {
  end_job();
  std::unique_lock lock(mutex_);
  if (under_way_ != 0) end_for("ncclCommDestroy while collectives are under way");
  if (recorded_ != 0) end_for("ncclCommDestroy before the graphs with its collectives");
  gone_ = true;
}

void Communicator::abort() {
  while (order().what == "stuck" && result_ == nccl::kRemoteError) pause();
  aborted_ = true;
  if (rank_ == 0) boxes_.remove_name();
  end_job();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return under_way_ == 0 && recorded_ == 0; });
  gone_ = true;
}

const char* Communicator::last_error() const {
  return result_ == nccl::kRemoteError ? "simulated error of the network" : "";
}

/// Obeys the test's order. Returns false if the call must not be executed.
bool Communicator::obey(int call) {
  const Order& ordered = order();
  if (ordered.what.empty() || call < ordered.call) return true;
  if (ordered.what == "slow") {
    std::this_thread::sleep_for(kSlow);
    return true;
  }
  if (call != ordered.call) return true;
  if (ordered.what == "die") (void)::kill(getpid(), SIGKILL);
  if (ordered.what == "error" || ordered.what == "stuck") result_ = nccl::kRemoteError;
  while (!aborted_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return false;
}

bool Communicator::broadcast(const Operation& operation) {
  std::vector<Transfer> transfers;
  const bool is_root = rank_ == operation.peer;
  for (int peer = 0; peer < world_; ++peer) {
    if (peer == rank_ || (!is_root && peer != operation.peer)) continue;
    std::byte* at = is_root ? memory(operation.from) : operation.to;
    transfers.push_back({is_root, peer, at, bytes_of(operation), number_of(operation)});
  }
  if (!boxes_.exchange(rank_, std::move(transfers), aborted_)) return false;
  if (is_root && operation.to != operation.from) std::memmove(operation.to, operation.from, bytes_of(operation));
  return true;
}

/// Reduces in the order of the ranks, so that all ranks get the same bits.
bool Communicator::reduce(const Operation& operation) {
  const int root = operation.kind == Kind::kReduce ? operation.peer : -1;
  const std::size_t bytes = bytes_of(operation);
  std::vector<std::vector<std::byte>> parts(static_cast<std::size_t>(world_));
  auto& own = parts[static_cast<std::size_t>(rank_)];
  own.assign(operation.from, operation.from + bytes);
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < world_; ++peer) {
    if (peer == rank_) continue;
    if (root < 0 || root == peer) transfers.push_back({true, peer, own.data(), bytes, number_of(operation)});
    if (root >= 0 && root != rank_) continue;
    auto& part = parts[static_cast<std::size_t>(peer)];
    part.resize(bytes);
    transfers.push_back({false, peer, part.data(), bytes, number_of(operation)});
  }
  if (!boxes_.exchange(rank_, std::move(transfers), aborted_)) return false;
  if (root >= 0 && root != rank_) return true;
  for (int peer = 1; peer < world_; ++peer) {
    fold(parts[0].data(), parts[static_cast<std::size_t>(peer)].data(), operation.count, operation.type, operation.op);
  }
  if (bytes > 0) std::memcpy(operation.to, parts[0].data(), bytes);
  return true;
}

bool Communicator::gather(const Operation& operation) {
  const std::size_t bytes = bytes_of(operation);
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < world_; ++peer) {
    if (peer == rank_) continue;
    transfers.push_back({true, peer, memory(operation.from), bytes, number_of(operation)});
    transfers.push_back(
        {false, peer, operation.to + static_cast<std::size_t>(peer) * bytes, bytes, number_of(operation)});
  }
  std::byte* own = operation.to + static_cast<std::size_t>(rank_) * bytes;
  if (bytes > 0 && own != operation.from) std::memmove(own, operation.from, bytes);
  return boxes_.exchange(rank_, std::move(transfers), aborted_);
}

/// Reduces in the order of the ranks, like reduce().
bool Communicator::reduce_parts(const Operation& operation) {
  const std::size_t bytes = bytes_of(operation);
  const auto part_for = [&](int peer) { return operation.from + static_cast<std::size_t>(peer) * bytes; };
  std::vector<std::vector<std::byte>> parts(static_cast<std::size_t>(world_), std::vector<std::byte>(bytes));
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < world_; ++peer) {
    auto& part = parts[static_cast<std::size_t>(peer)];
    if (peer == rank_) {
      part.assign(part_for(rank_), part_for(rank_) + bytes);
      continue;
    }
    transfers.push_back({true, peer, memory(part_for(peer)), bytes, number_of(operation)});
    transfers.push_back({false, peer, part.data(), bytes, number_of(operation)});
  }
  if (!boxes_.exchange(rank_, std::move(transfers), aborted_)) return false;
  for (int peer = 1; peer < world_; ++peer) {
    fold(parts[0].data(), parts[static_cast<std::size_t>(peer)].data(), operation.count, operation.type, operation.op);
  }
  if (bytes > 0) std::memcpy(operation.to, parts[0].data(), bytes);
  return true;
}

void Communicator::run(const std::vector<Operation>& group, int call) {
  if (!obey(call)) return;
  std::vector<Transfer> between_two;
  for (const Operation& operation : group) {
    const std::size_t bytes = bytes_of(operation);
    const std::uint64_t number = number_of(operation);
    bool going_on = true;
    switch (operation.kind) {
      case Kind::kSend:
        between_two.push_back({true, operation.peer, memory(operation.from), bytes, number});
        break;
      case Kind::kRecv:
        between_two.push_back({false, operation.peer, operation.to, bytes, number});
        break;
      case Kind::kBroadcast:
        going_on = broadcast(operation);
        break;
      case Kind::kAllGather:
        going_on = gather(operation);
        break;
      case Kind::kReduceScatter:
        going_on = reduce_parts(operation);
        break;
      default:
        going_on = reduce(operation);
    }
    if (!going_on) return;
  }
  (void)boxes_.exchange(rank_, std::move(between_two), aborted_);
}

}  // namespace lockstep::testing::nccl_double
