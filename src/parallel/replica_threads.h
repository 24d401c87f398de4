// SPDX-License-Identifier: Apache-2.0
// Threads that run the replicas of a DataParallel at the same time. They know nothing about modules.
#pragma once

#include <functional>
#include <memory>

namespace lockstep::parallel {

/// Runs the replicas of a DataParallel. Its destructor joins the threads.  Thread-safe: no.
class ReplicaThreads {
 public:
  /// `libtorch_threads` is the number for each thread; the constructing thread keeps its own number.
  ReplicaThreads(int count, int libtorch_threads);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  /// Runs body(0), ..., body(count - 1), each in its thread, with the caller's gradient mode, autocast and current
  /// streams.
  ///
  /// Blocks: until all have ended.
  /// Throws: what the body with the lowest number threw.
  void run(int count, const std::function<void(int)>& body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::parallel
