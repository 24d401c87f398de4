// SPDX-License-Identifier: Apache-2.0
// Changes a workload in one respect: its buckets, a communication hook or sharded optimizer state. Pure functions.
#pragma once

#include "lockstep/simulate/bucket_plan.h"
#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/workload.h"

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// Plans new buckets with plan_buckets(). If `limits` is about as large as the measured buckets or larger, whole
/// buckets are joined. If it is smaller, a bucket's gradients are assumed to have arrived evenly since the previous
/// bucket was complete. However, a measured bucket of more than twice its original limit must hold a parameter larger
/// than that limit, so it is not split. The original limit is estimated from the measured buckets; for the first bucket
/// it is 1 MiB, the default of DdpOptions. Measurements with small buckets are therefore the most useful.
[[nodiscard]] Workload with_buckets(const Workload& workload, const PlanLimits& limits);

/// Adds hooks::bf16_compress(): half the bytes, and two conversions at the memory copy rate.
[[nodiscard]] Workload with_bf16(const Workload& workload, const HostCosts& host);

/// Adds hooks::power_sgd() with this rank: P while backward runs, then Q, and its passes over the gradients at the
/// memory copy rate. Requires `workload.shapes`.
[[nodiscard]] Workload with_power_sgd(const Workload& workload, std::int64_t rank, const HostCosts& host);

/// Uses ZeroRedundancyOptimizer on `ranks` ranks: each reduces and updates its part, and gathers the other parts.
[[nodiscard]] Workload with_zero(const Workload& workload, int ranks);

/// The bytes that PowerSGD sends for parameters of given shapes.
struct PowerSgdBytes {
  std::int64_t p = 0;      ///< bytes of P, in the first round
  std::int64_t q = 0;      ///< bytes of Q, in the second round
  std::int64_t plain = 0;  ///< bytes of uncompressed parameters, in the first round
};
/// Returns the bytes for one float32 parameter.
[[nodiscard]] PowerSgdBytes power_sgd_bytes(const std::vector<std::int64_t>& shape, std::int64_t rank);

}  // namespace lockstep::simulate

#pragma GCC visibility pop
