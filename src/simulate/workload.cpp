// SPDX-License-Identifier: Apache-2.0
#include "lockstep/simulate/workload.h"

#include <algorithm>

namespace lockstep::simulate {

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

double median_compute_s(const Workload& workload) {
  std::vector<double> own;
  for (const MeasuredStep& step : workload.steps) own.push_back(step.compute_s);
  const auto half = own.begin() + static_cast<std::ptrdiff_t>(own.size() / 2);
  std::nth_element(own.begin(), half, own.end());
  return *half;
}

double alone_share(const Workload& workload, double alone_s, double copy_bytes_per_s) {
  const auto bytes = static_cast<double>(gradient_bytes(workload.steps.front()));
  const double copying = copy_bytes_per_s > 0 ? bytes / copy_bytes_per_s : 0;
  return std::min(1.0, (alone_s + copying) / median_compute_s(workload));
}

}  // namespace lockstep::simulate
