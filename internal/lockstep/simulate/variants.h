// SPDX-License-Identifier: Apache-2.0
// The same training with one change: other buckets, a communication hook, sharded optimizer state. Pure.
#pragma once

#include "lockstep/simulate/bucket_plan.h"
#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/workload.h"

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// Plans the buckets anew by plan_buckets(). If `limits` asks for about as much as the measured buckets hold, or more,
/// they are joined as they are. If it asks for less, their gradients are assumed to have come evenly between the bucket
/// before and the moment when it was complete; but a bucket of more than twice its limit has a parameter that is larger
/// than the limit, and stays whole. The limit comes from the measured buckets; that of the first one is assumed to be 1
/// MiB, the default of DdpOptions. So measurements with small buckets are the most useful.
[[nodiscard]] Workload with_buckets(const Workload& workload, const PlanLimits& limits);

/// hooks::bf16_compress(): half of the bytes, and the conversions there and back at the rate of copying memory.
[[nodiscard]] Workload with_bf16(const Workload& workload, const HostCosts& host);

/// hooks::power_sgd() with this rank: P while backward runs, then Q, and its passes over the gradients at the rate of
/// copying memory. Requires `workload.shapes`.
[[nodiscard]] Workload with_power_sgd(const Workload& workload, std::int64_t rank, const HostCosts& host);

/// ZeroRedundancyOptimizer on `ranks` ranks: each reduces, and updates, its part, and gathers the others' parameters.
[[nodiscard]] Workload with_zero(const Workload& workload, int ranks);

/// Bytes that PowerSGD sends for parameters of these shapes, in place of all.
struct PowerSgdBytes {
  std::int64_t p = 0;      ///< in the first round
  std::int64_t q = 0;      ///< in the second round
  std::int64_t plain = 0;  ///< for parameters that it leaves as they are, in the first round
};
/// Returns them for one parameter of float32.
[[nodiscard]] PowerSgdBytes power_sgd_bytes(const std::vector<std::int64_t>& shape, std::int64_t rank);

}  // namespace lockstep::simulate

#pragma GCC visibility pop
