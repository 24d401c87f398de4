// SPDX-License-Identifier: Apache-2.0
#include "lockstep/schedule/workload.h"

namespace lockstep::schedule {

std::vector<std::int64_t> bucket_bytes(const MeasuredStep& step) {
  std::vector<std::int64_t> bytes;
  for (const Call& call : step.calls) {
    if (call.bucket >= 0) bytes.push_back(call.bytes);
  }
  return bytes;
}

std::int64_t gradient_bytes(const MeasuredStep& step) {
  std::int64_t sum = 0;
  for (const std::int64_t bytes : bucket_bytes(step)) sum += bytes;
  return sum;
}

}  // namespace lockstep::schedule
