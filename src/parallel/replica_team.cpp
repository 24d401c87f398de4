// SPDX-License-Identifier: Apache-2.0
// Runs replicas one at a time. A replica's thread sleeps until its turn; the thread with the turn may use everything.
#include "lockstep/parallel/replica_team.h"

#include <ATen/autocast_mode.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <fmt/format.h>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/comm/tree_sum.h"
#include "lockstep/parallel/replica_replay.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/threads.h"
#include "parallel/caller_streams.h"

namespace lockstep {
namespace {

thread_local Replica* current = nullptr;
thread_local std::string* recording = nullptr;      ///< receives the results of collectives
thread_local std::string_view* replayed = nullptr;  ///< recorded results, used instead of collectives

constexpr int kNobody = -1;

/// Thrown in a replica that waits for a failed replica; the caller gets the failed replica's exception. It derives from
/// std::exception because it may pass through autograd's engine, which cleans up only after those.
struct TurnLost : std::exception {};

bool is_narrow(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
}

}  // namespace

/// Phases of a member: idle -> waiting -> running, then any number of times meeting (in a collective) -> running, then
/// ended. `turn_` names the one member that may continue; it is kNobody outside run(), and once all members have ended.
///
/// `mutex_` guards `turn_` and `closed_`. It is held while the turn passes on, during on_switch (except for the first
/// call of a run), and while the last member to arrive combines the values of a collective. The member with the turn
/// uses everything else without the lock: the next member sees all changes, since it has read `turn_` under the mutex.
/// With one replica there are neither threads nor phases.
class ReplicaTeam::Impl {
 public:
  Impl(ReplicaTeam& team, ProcessGroup& group, const ReplicaTeamOptions& options);
  ~Impl();

  void run(const std::function<void(Replica&)>& body);
  void all_reduce(int local, const at::Tensor& tensor, ReduceOp op);

  ProcessGroup& group;
  const ReplicaTeamOptions options;
  const int replicas;
  const ReplicaSpan block;

 private:
  enum class Phase { kIdle, kWaiting, kRunning, kMeeting, kEnded };
  struct Member {
    explicit Member(const Replica& own) : replica(own) {}
    Replica replica;
    Phase phase = Phase::kIdle;
    at::Tensor random;  ///< the generator's state while another member has the turn
    at::Tensor value;   ///< the tensor that it contributes to a collective
    std::condition_variable wake;
  };
  using Lock = std::unique_lock<std::mutex>;

  void end_threads() noexcept;
  void thread_loop(int local) noexcept;
  void execute(int local) noexcept;
  void pass_turn(Lock& lock, int from);
  [[nodiscard]] int next_after(int from) const;
  void wait_for_turn(Lock& lock, int local);
  void switch_to(int from, int to);
  void combine(ReduceOp op);
  Member& member(int local) { return *members_[static_cast<std::size_t>(local)]; }
  [[nodiscard]] int size() const { return block.size(); }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Member>> members_;
  int turn_ = kNobody;
  int arrived_ = 0;          ///< number of members in the collective under way
  std::int64_t rounds_ = 0;  ///< number of collectives that are done
  bool closed_ = false;
  const std::function<void(Replica&)>* body_ = nullptr;
  std::optional<at::ThreadLocalState> caller_;
  std::optional<parallel::CallerStreams> streams_;
  std::exception_ptr error_;
  at::Tensor result_;
  std::vector<std::thread> threads_;
};

ReplicaTeam::Impl::Impl(ReplicaTeam& team, ProcessGroup& group_in, const ReplicaTeamOptions& options_in)
    : group(group_in),
      options(options_in),
      replicas(options_in.replicas == 0 ? group_in.world_size() : options_in.replicas),
      block(replicas_of_rank(group_in.rank(), group_in.world_size(), replicas)) {
  if (replicas < group.world_size()) {
    throw UsageError(fmt::format("{} replicas on {} ranks: a rank would have none", replicas, group.world_size()),
                     fmt::format("start at most {} ranks", replicas));
  }
  for (int local = 0; local < size(); ++local) {
    members_.push_back(std::make_unique<Member>(Replica(team, local, block.begin + local)));
  }
  // Each thread sets libtorch's thread count when it starts. This rebuilds libtorch's pool, and hangs if the system is
  // short of threads.
  const int libtorch = 2 * (options.threads - 1);
  if (libtorch > 0 && size() > 1) require_threads(size() - 1 + libtorch, "for the replicas of this rank and libtorch");
  try {
    threads_.reserve(static_cast<std::size_t>(size()));
    for (int local = 1; local < size(); ++local) {
      threads_.push_back(start_thread(fmt::format("for replica {} of {} on this rank", local + 1, size()),
                                      [this, local] { thread_loop(local); }));
    }
  } catch (...) {
    end_threads();
    throw;
  }
}

ReplicaTeam::Impl::~Impl() { end_threads(); }

void ReplicaTeam::Impl::end_threads() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (const auto& each : members_) each->wake.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaTeam::Impl::run(const std::function<void(Replica&)>& body) {
  at::autocast::clear_cache();  // the caller's copies would reach only the first replica of this rank
  if (size() == 1) {
    current = &member(0).replica;
    try {
      body(member(0).replica);
    } catch (...) {
      current = nullptr;
      throw;
    }
    current = nullptr;
    return;
  }
  Lock lock(mutex_);
  body_ = &body;
  caller_.emplace();
  streams_.emplace();
  error_ = nullptr;
  arrived_ = 0;
  for (const auto& each : members_) {
    each->phase = Phase::kWaiting;
    each->random.reset();
  }
  turn_ = 0;
  lock.unlock();
  if (options.on_switch) options.on_switch(0);
  execute(0);
  lock.lock();
  member(0).wake.wait(lock, [this] { return turn_ == kNobody; });
  switch_to(size() - 1, 0);
  if (error_) std::rethrow_exception(error_);
}

void ReplicaTeam::Impl::thread_loop(int local) noexcept {
  tensor::adopt_device();
  tensor::set_threads_in_turn(options.threads);  // a per-thread setting: OpenMP would use one thread per core
  Lock lock(mutex_);
  while (true) {
    member(local).wake.wait(lock, [&] { return closed_ || turn_ == local; });
    if (closed_) return;
    lock.unlock();
    execute(local);
    lock.lock();
  }
}

void ReplicaTeam::Impl::execute(int local) noexcept {
  std::exception_ptr error;
  {
    const at::ThreadLocalStateGuard state(*caller_);
    streams_->enter();
    current = &member(local).replica;
    member(local).phase = Phase::kRunning;
    try {
      if (!error_) (*body_)(member(local).replica);
    } catch (const TurnLost&) {
    } catch (...) {
      error = std::current_exception();
    }
    current = nullptr;
  }
  Lock lock(mutex_);
  if (error && !error_) error_ = error;
  member(local).phase = Phase::kEnded;
  pass_turn(lock, local);
}

int ReplicaTeam::Impl::next_after(int from) const {
  for (int step = 1; step <= size(); ++step) {
    const int local = (from + step) % size();
    if (members_[static_cast<std::size_t>(local)]->phase != Phase::kEnded) return local;
  }
  return kNobody;
}

void ReplicaTeam::Impl::pass_turn(Lock& /*held*/, int from) {
  const int next = next_after(from);
  if (next == kNobody) {
    turn_ = kNobody;
    member(0).wake.notify_all();
    return;
  }
  if (next != from) switch_to(from, next);
  turn_ = next;
  member(next).wake.notify_all();
}

void ReplicaTeam::Impl::switch_to(int from, int to) {
  if (from == to) return;
  member(from).random = random_state();
  if (member(to).random.defined()) set_random_state(member(to).random);
  at::autocast::clear_cache();  // a cached copy of a weight belongs to the graph of the replica that made it
  if (options.on_switch) options.on_switch(to);
}

void ReplicaTeam::Impl::wait_for_turn(Lock& lock, int local) {
  member(local).wake.wait(lock, [&] { return turn_ == local; });
}

void ReplicaTeam::Impl::all_reduce(int local, const at::Tensor& tensor, ReduceOp op) {
  Lock lock(mutex_);
  const at::Tensor plain = tensor.detach();
  member(local).value = (is_narrow(plain) ? plain.to(at::kFloat) : plain).contiguous();
  member(local).phase = Phase::kMeeting;
  const std::int64_t round = rounds_;
  if (++arrived_ == size()) combine(op);
  if (size() > 1) {
    pass_turn(lock, local);  // the last member to arrive passes it to the first, so that the replicas continue in order
    wait_for_turn(lock, local);
  }
  if (error_) throw TurnLost{};
  if (rounds_ == round) {
    throw UsageError(
        fmt::format("replica {} waits in a collective, but another replica of this rank ended without calling it",
                    member(local).replica.index()),
        "every replica must call the same collectives");
  }
  member(local).phase = Phase::kRunning;
  plain.copy_(result_);
}

void ReplicaTeam::Impl::combine(ReduceOp op) {
  std::vector<at::Tensor> values;
  for (const auto& each : members_) {
    if (each->value.sizes() != members_.front()->value.sizes()) {
      throw UsageError(fmt::format("replicas {} and {} called a collective with different shapes", block.begin,
                                   each->replica.index()));
    }
    values.push_back(each->value);
  }
  const at::Tensor rows = partial_sums(values, block, replicas, op);
  group.all_reduce(rows, {.op = op, .replicas = replicas}).wait();
  result_ = rows[0];
  arrived_ = 0;
  ++rounds_;
}

ReplicaTeam::ReplicaTeam(ProcessGroup& group, const ReplicaTeamOptions& options)
    : impl_(std::make_unique<Impl>(*this, group, options)) {}
ReplicaTeam::~ReplicaTeam() = default;
int ReplicaTeam::replicas() const noexcept { return impl_->replicas; }
ReplicaSpan ReplicaTeam::block() const noexcept { return impl_->block; }
void ReplicaTeam::run(const std::function<void(Replica&)>& body) { impl_->run(body); }

int Replica::count() const noexcept { return team_->replicas(); }

void Replica::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  // Several replicas lose the cached copies of weights when the turn changes. Without this call a single replica and a
  // replay would keep them, and autograd would add the gradients of a weight used twice in 16 bits instead of 32.
  at::autocast::clear_cache();
  if (replayed == nullptr) team_->impl_->all_reduce(local_, tensor, op);
  if (replayed == nullptr && recording == nullptr) return;
  const at::Tensor plain = tensor.detach().contiguous();
  if (replayed == nullptr) {
    recording->append(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
    return;
  }
  if (replayed->size() < plain.nbytes()) throw InternalError("a replay requested a collective that was not recorded");
  const at::Tensor given = plain.clone();
  std::memcpy(given.data_ptr(), replayed->data(), given.nbytes());
  replayed->remove_prefix(given.nbytes());
  tensor.detach().copy_(given);
}

namespace parallel {

ReductionRecorder::ReductionRecorder() { recording = &bytes_; }
ReductionRecorder::~ReductionRecorder() { recording = nullptr; }

void replay_replica(ReplicaTeam& team, int index, std::string_view recorded, const std::function<void()>& body) {
  struct Scope {
    Replica* const before = current;
    ~Scope() {
      current = before;
      replayed = nullptr;
    }
  } const scope;
  Replica shown(team, 0, index);
  current = &shown;
  replayed = &recorded;
  body();
}

}  // namespace parallel

Replica* find_replica() noexcept { return current; }

Replica& this_replica() {
  if (current != nullptr) return *current;
  throw UsageError("this_replica() was called outside a training step",
                   "call it in a step of the Trainer or in ReplicaTeam::run()");
}

}  // namespace lockstep
