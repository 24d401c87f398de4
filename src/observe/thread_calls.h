// SPDX-License-Identifier: Apache-2.0
// ThreadCalls: the calls that one thread recorded. Only this thread adds to it, and the recorder takes it: the lock is
// nearly always free.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/view/profile.h"

namespace lockstep::observe {

/// A call as it was recorded. Backward nodes learn their layer at the end, from the forward operator that made them.
struct RecordedCall {
  view::ProfiledCall call;
  std::uint64_t thread = 0;          ///< libtorch's number of the thread; of a backward node: of its forward's
  std::uint64_t first_sequence = 0;  ///< the numbers that autograd gave during a forward call, [first, last); of a
  std::uint64_t last_sequence = 0;   ///< backward node `first_sequence` is its own number
};

class ThreadCalls {
 public:
  /// Of the calling thread.
  ThreadCalls();

  void add(RecordedCall call);
  [[nodiscard]] std::vector<RecordedCall> take();
  void add(view::MemoryEvent event);
  [[nodiscard]] std::vector<view::MemoryEvent> take_memory();
  void clear() { (void)take(), (void)take_memory(); }

  /// Asks the system, as long as the thread lives: threads get their names after their first lines.
  [[nodiscard]] view::ProfiledThread about() const;

  /// Only for the thread itself.
  struct OpenSpan {
    std::int64_t begin_ns;
    int run;
  };
  std::vector<OpenSpan> spans;
  int counted_depth = 0;  ///< operators under way whose operations are counted: those inside are not counted again

 private:
  std::int64_t id_;
  std::string name_;
  std::mutex mutex_;
  std::vector<RecordedCall> calls_;
  std::vector<view::MemoryEvent> memory_;
};

}  // namespace lockstep::observe
