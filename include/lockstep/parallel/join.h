// SPDX-License-Identifier: Apache-2.0
// Join: training in which some ranks have fewer batches than others. A rank that has run out of data keeps taking part
//       in the other ranks' collectives until all ranks have run out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of a Join.
struct JoinOptions {
  /// Divides gradients by the initial number of ranks, so that every sample has the same weight; false: divides by the
  /// number of ranks that still have data.
  bool divide_by_initial_world_size = true;
  /// Makes every rank throw DataError as soon as one has run out of data. Set it for models with their own collectives
  /// (sync_batch_norm), in which a rank without data cannot take part.
  bool throw_on_early_termination = false;
};

/// The ranks that still have data.
struct JoinStatus {
  int active = 0;                            ///< number of ranks with data
  int first_active = 0;                      ///< the lowest rank with data
  bool divide_by_initial_world_size = true;  ///< divides sums by the number of all ranks, including those without data
};

class Join;

/// Connects a Joinable to its Join.
class JoinHandle {
 public:
  JoinHandle(Join& join, int index) : join_(&join), index_(index) {}
  /// Announces the next collectives to the ranks that have run out of data; they call shadow(action).
  /// Collective: yes; every rank with data calls it for the same joinable and action.  Blocks: yes.
  /// Throws: DataError with throw_on_early_termination; UsageError if ranks announce different actions.
  JoinStatus announce(int action) const;
  /// Returns JoinOptions::throw_on_early_termination.
  [[nodiscard]] bool throws_on_early_termination() const;

 private:
  Join* join_;
  int index_;
};

/// A class that can take part in a Join: DistributedDataParallel, JoinedState, or a user's class that announces its
/// collectives.
class Joinable {
 public:
  virtual ~Joinable() = default;
  /// Returns the group whose ranks join.
  [[nodiscard]] virtual ProcessGroup& join_group() = 0;
  /// Sets the handle, which is valid while the Join is alive; the Join resets it at its end.
  /// Throws: UsageError if the object cannot take part.
  virtual void set_join(std::optional<JoinHandle> handle) = 0;
  /// Calls, on a rank without data, the collectives that the other ranks call after announce(action).
  virtual void shadow(int action, const JoinStatus& status) = 0;
  /// Called when all ranks have run out of data; `source` is one of the ranks that were the last to have data.
  virtual void after_join(int source) = 0;
};

/// Lets ranks with different numbers of batches train together.
///
/// Collective: construction no, run() yes.
/// Lifetime: the joinables outlive it and are not moved before it ends.
/// Source:     PyTorch's torch.distributed.algorithms.Join.
/// Example:    lockstep::JoinedState state{optimizer, job.group()};
///             lockstep::Join join{{&model, &state}};
///             join.run([&] { for (auto& batch : batches) train(batch); });
class Join {
 public:
  /// Throws: UsageError for joinables of different groups, or for an empty list.
  explicit Join(std::vector<Joinable*> joinables, const JoinOptions& options = {});
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  /// Runs `body`, a training loop of any number of steps, then takes part in the other ranks' loops until they have
  /// ended. At the end every rank has the weights and buffers of the last rank that had data.
  ///
  /// Collective: yes.  Blocks: until all ranks have ended.
  /// Throws: the exceptions of `body`; DataError with JoinOptions::throw_on_early_termination.
  void run(const std::function<void()>& body);

 private:
  friend class JoinHandle;
  struct Message {
    std::int64_t joinable;
    std::int64_t action;
  };
  [[nodiscard]] std::vector<Message> exchange(const Message& own);
  [[nodiscard]] JoinStatus status_of(const std::vector<Message>& all) const;
  JoinStatus announce(int joinable, int action);
  bool shadow_one();

  std::vector<Joinable*> joinables_;
  JoinOptions options_;
  ProcessGroup& group_;
};

/// An object with state, such as an optimizer, that takes the last active rank's state at the end of a Join. A rank
/// that ran out of data has missed steps: with its own moments its weights would diverge from the other ranks'.
class JoinedState final : public Joinable {
 public:
  /// Lifetime: `state` and `group` outlive it.
  /// Throws: UsageError for a sharded optimizer, whose state no rank has as a whole.
  JoinedState(Stateful& state, ProcessGroup& group);
  [[nodiscard]] ProcessGroup& join_group() override { return group_; }
  void set_join(std::optional<JoinHandle> /*handle*/) override {}
  void shadow(int /*action*/, const JoinStatus& /*status*/) override {}
  void after_join(int source) override;

 private:
  Stateful& state_;
  ProcessGroup& group_;
};

}  // namespace lockstep

#pragma GCC visibility pop
