// SPDX-License-Identifier: Apache-2.0
// The current CUDA streams of a caller, for threads that compute for it. On the same streams the GPU runs the caller's
// earlier work before the threads' work, and its later work after theirs. A new thread has the default streams.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <c10/core/Stream.h>

#include <vector>

namespace lockstep::parallel {

class CallerStreams {
 public:
  /// Captures the calling thread's current stream of each GPU; none if libtorch has no CUDA.
  CallerStreams();
  /// Makes the stored streams the current streams of the calling thread.
  void enter() const;

 private:
  std::vector<c10::Stream> streams_;
};

}  // namespace lockstep::parallel
