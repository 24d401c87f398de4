// SPDX-License-Identifier: Apache-2.0
// Threads that run the replicas of a DataParallel at the same time. They do not depend on modules.
#pragma once

#include <functional>
#include <memory>

namespace lockstep::parallel {

/// Runs the replicas of a DataParallel. Its destructor joins the threads.  Thread-safe: no.
class ReplicaThreads {
 public:
  /// Each thread gets `libtorch_threads` libtorch threads; the constructing thread keeps its own count.
  ReplicaThreads(int count, int libtorch_threads);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  /// Runs body(0), ..., body(count - 1), each in its own thread, with the caller's gradient mode, autocast and current
  /// streams.
  ///
  /// Blocks: until all calls have ended.
  /// Throws: the exception of the lowest-numbered call that threw.
  void run(int count, const std::function<void(int)>& body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::parallel
