// SPDX-License-Identifier: Apache-2.0
// ThreadCalls: the calls that one thread recorded. Only this thread adds calls, and the recorder takes them, so the
// lock is nearly always free.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/view/profile.h"

namespace lockstep::observe {

/// A recorded call. A backward node gets its layer at the end, from the forward operator that created it.
struct RecordedCall {
  view::ProfiledCall call;
  std::uint64_t thread = 0;          ///< libtorch's thread ID; for a backward node, that of the forward thread
  std::uint64_t first_sequence = 0;  ///< autograd's sequence numbers during a forward call, [first, last); for a
  std::uint64_t last_sequence = 0;   ///< backward node `first_sequence` is its own number
};

class ThreadCalls {
 public:
  /// Creates the record of the calling thread.
  ThreadCalls();

  void add(RecordedCall call);
  [[nodiscard]] std::vector<RecordedCall> take();
  void add(view::MemoryEvent event);
  [[nodiscard]] std::vector<view::MemoryEvent> take_memory();
  void clear() { (void)take(), (void)take_memory(); }

  /// Describes the thread. While the thread is alive, its name is reread, because a thread gets its name only after it
  /// has started.
  [[nodiscard]] view::ProfiledThread about() const;

  /// The open spans. Only the thread itself uses them.
  struct OpenSpan {
    std::int64_t begin_ns;
    int run;
  };
  std::vector<OpenSpan> spans;
  int counted_depth = 0;  ///< number of open operators with counted operations; nested operators are not counted again

 private:
  std::int64_t id_;
  std::string name_;
  std::mutex mutex_;
  std::vector<RecordedCall> calls_;
  std::vector<view::MemoryEvent> memory_;
};

}  // namespace lockstep::observe
