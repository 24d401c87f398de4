// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/threads.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "lockstep/base/resources.h"

namespace lockstep::tensor {
namespace {

/// Returns the number of threads in libtorch's first pool, which has one per processor and comes before the pool of the
/// requested size.
int threads_of_first_pool() {
  static std::atomic<bool> is_made = false;
  if (is_made.exchange(true)) return 0;
  return std::max(0, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)) - 1);
}

}  // namespace

void set_threads(int count) {
  const int more = std::max(0, count - 1);  // the calling thread is one of them
  require_threads(std::max(threads_of_first_pool() + more, 2 * more), "for libtorch");
  set_threads_in_turn(count);
}

void set_threads_in_turn(int count) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  at::set_num_threads(count);
}

}  // namespace lockstep::tensor
