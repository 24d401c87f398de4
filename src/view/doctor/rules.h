// SPDX-License-Identifier: Apache-2.0
// The rules of `lockstep doctor`, a pure function for each kind of fact.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/view/machine_check.h"

namespace lockstep::view {

inline constexpr std::uint64_t kMega = 1'000'000;
inline constexpr std::uint64_t kGiga = 1'000'000'000;

/// Adds a finding. The worst finding determines the check's health.
void add_finding(Check& check, Health health, std::string hint);

[[nodiscard]] Check check_cores(const CoreFacts& facts);
[[nodiscard]] Check check_memory(const MemoryFacts& facts);
[[nodiscard]] Check check_swap(const MemoryFacts& facts);
[[nodiscard]] Check check_shared_memory(const SharedMemoryFacts& facts);
[[nodiscard]] Check check_limits(const LimitFacts& facts);
[[nodiscard]] Check check_ports(const PortFacts& facts);
[[nodiscard]] Check check_host_name(const NetworkFacts& facts);
[[nodiscard]] Check check_interfaces(const NetworkFacts& facts);
[[nodiscard]] Check check_clock(const ClockFacts& facts);
[[nodiscard]] Check check_gpus(const GpuFacts& facts);
[[nodiscard]] Check check_gpu_links(const GpuLinkFacts& facts);
[[nodiscard]] Check check_disk(const DiskFacts& facts);
[[nodiscard]] Check check_all_reduce(const AllReduceFacts& facts);

}  // namespace lockstep::view
