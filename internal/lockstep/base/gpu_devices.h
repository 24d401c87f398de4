// SPDX-License-Identifier: Apache-2.0
// GPUs as the kernel and CUDA_VISIBLE_DEVICES show them, for programs that have no CUDA.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the number of NVIDIA's GPUs in `folder`: nvidia0 and so on.
[[nodiscard]] int count_gpu_devices(const std::filesystem::path& folder = "/dev");

/// Returns how many of `devices` GPUs CUDA shows a process whose CUDA_VISIBLE_DEVICES is `visible`; none: it is not
/// set. Slices (MIG) count one by one, although CUDA shows a process only the first of them. It is a pure function.
[[nodiscard]] int count_visible_gpus(int devices, const std::optional<std::string_view>& visible);

/// Returns the entry of the list `visible` that is for a host's rank, so that it sees no other: they are dealt in turn.
/// Empty: the list shows no GPU. It is a pure function.
[[nodiscard]] std::string visible_gpu_of(std::string_view visible, int local_rank);

/// Returns true if the list names slices of GPUs: then each rank must see its own only. It is a pure function.
[[nodiscard]] bool names_slices(std::string_view visible);

}  // namespace lockstep

#pragma GCC visibility pop
