// SPDX-License-Identifier: Apache-2.0
// The only file that is compiled with OpenMP.
#include <ATen/Parallel.h>

#include "lockstep/tensor/threads.h"

namespace lockstep::tensor::detail {

void run_in_parallel(std::int64_t begin, std::int64_t end, std::int64_t grain, const void* object, RangeBody body) {
  at::parallel_for(begin, end, grain, [=](std::int64_t from, std::int64_t to) { body(object, from, to); });
}

}  // namespace lockstep::tensor::detail
