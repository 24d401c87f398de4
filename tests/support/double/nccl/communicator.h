// SPDX-License-Identifier: Apache-2.0
// A rank's part of a fake NCCL communicator, with the rules of NCCL 2.28: only one thread at a time may be in it, and
// another thread runs a call to a nonblocking communicator until ncclCommGetAsyncError reports its end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "boxes.h"
#include "lockstep/base/nccl_library.h"
#include "operation.h"

namespace lockstep::testing::nccl_double {

class Communicator {
 public:
  Communicator(const std::string& name, int rank, int world, bool blocking);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Marks a call as being in the communicator for the object's lifetime. A second call at that time ends the process.
  class Visit {
   public:
    Visit(Communicator& communicator, const char* call);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Communicator& communicator_;
  };

  [[nodiscard]] nccl::Result connect();
  /// Enqueues the calls of one group.
  [[nodiscard]] nccl::Result launch(std::vector<Operation> group);
  [[nodiscard]] nccl::Result finalize();
  [[nodiscard]] nccl::Result state();
  void destroy();
  void abort();
  [[nodiscard]] const char* last_error() const;
  [[nodiscard]] int world() const { return world_; }
  /// True if a thread is in a call that only abort() ends; then another thread may call abort().
  [[nodiscard]] bool is_blocked() const { return blocked_; }

 private:
  [[nodiscard]] nccl::Result start(std::function<nccl::Result()> job);
  [[nodiscard]] nccl::Result block();
  void end_job();
  void run(const std::vector<Operation>& group, int call);
  [[nodiscard]] bool obey(int call);
  [[nodiscard]] bool reduce(const Operation& operation);
  [[nodiscard]] bool broadcast(const Operation& operation);
  [[nodiscard]] bool gather(const Operation& operation);
  [[nodiscard]] bool reduce_parts(const Operation& operation);
  void note_begin();
  void note_end();
  [[nodiscard]] nccl::Result record(std::vector<Operation> group);

  Boxes boxes_;
  const int rank_;
  const int world_;
  const bool blocking_;
  std::atomic<const char*> inside_{nullptr};
  std::atomic<int> result_{nccl::kSuccess};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> blocked_{false};
  bool gone_ = false;  ///< true if finalized, destroyed or aborted
  std::thread job_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int under_way_ = 0;  ///< number of groups on streams, and of their replays
  int recorded_ = 0;   ///< number of groups in graphs
};

}  // namespace lockstep::testing::nccl_double
