// SPDX-License-Identifier: Apache-2.0
// Join: training where some ranks have fewer batches than others. A rank that has run out of data goes on taking part
// in the collectives of the others until all have.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct JoinOptions {
  /// Gradients are divided by the number of ranks that began, so that every sample counts the same; false: by those
  /// that still have data.
  bool divide_by_initial_world_size = true;
  /// Every rank gets a DataError as soon as one has run out of data. For models with collectives of their own
  /// (sync_batch_norm), which nobody can take part in without data.
  bool throw_on_early_termination = false;
};

/// Who still has data.
struct JoinStatus {
  int active = 0;        ///< ranks
  int first_active = 0;  ///< the lowest of them
  bool divide_by_initial_world_size = true;
};

class Join;

/// A Joinable's way to the Join that it is part of.
class JoinHandle {
 public:
  JoinHandle(Join& join, int index) : join_(&join), index_(index) {}
  /// Tells ranks that have run out of data which collectives come next: their shadow(action).
  /// Collective: yes: every rank that has data, the same joinable and action.  Blocks: yes.
  /// Throws: DataError with throw_on_early_termination; UsageError where ranks do different things.
  JoinStatus announce(int action) const;
  [[nodiscard]] bool throws_on_early_termination() const;

 private:
  Join* join_;
  int index_;
};

/// What can take part in a Join: a DistributedDataParallel, a JoinedState, a class of one's own that announces its
/// collectives.
class Joinable {
 public:
  virtual ~Joinable() = default;
  [[nodiscard]] virtual ProcessGroup& join_group() = 0;
  /// `handle`: for as long as the Join lives, then nothing.
  /// Throws: UsageError where it cannot take part.
  virtual void set_join(std::optional<JoinHandle> handle) = 0;
  /// On a rank without data: calls the collectives that the others call after announce(action).
  virtual void shadow(int action, const JoinStatus& status) = 0;
  /// All ranks have run out of data; `source` was one of the last.
  virtual void after_join(int source) = 0;
};

/// Collective: construction no, run() yes.
/// Lifetime:   the joinables outlive it and are not moved meanwhile.
/// Source:     PyTorch's torch.distributed.algorithms.Join.
/// Example:    lockstep::JoinedState state{optimizer, job.group()};
///             lockstep::Join join{{&model, &state}};
///             join.run([&] { for (auto& batch : batches) train(batch); });
class Join {
 public:
  /// Throws: UsageError for joinables of different groups, or none.
  explicit Join(std::vector<Joinable*> joinables, const JoinOptions& options = {});
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  /// Runs `body`, a training loop of any number of steps, then takes part in the others' until theirs have ended. At
  /// the end every rank has the weights and buffers of the last one that had data.
  ///
  /// Collective: yes.  Blocks: until all ranks have ended.
  /// Throws: what body throws; DataError as JoinOptions say.
  void run(const std::function<void()>& body);

 private:
  friend class JoinHandle;
  struct Message {
    std::int64_t joinable;
    std::int64_t action;
  };
  [[nodiscard]] std::vector<Message> exchange(const Message& mine);
  [[nodiscard]] JoinStatus status_of(const std::vector<Message>& all) const;
  JoinStatus announce(int joinable, int action);
  bool shadow_one();

  std::vector<Joinable*> joinables_;
  JoinOptions options_;
  ProcessGroup& group_;
};

/// Something with a state, such as an optimizer, that takes the last active rank's state at the end of a Join: ranks
/// that ran out of data have missed steps, and their moments would drive the weights apart.
class JoinedState final : public Joinable {
 public:
  /// Lifetime: both outlive it.
  JoinedState(Stateful& state, ProcessGroup& group) : state_(state), group_(group) {}
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
