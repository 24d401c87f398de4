// SPDX-License-Identifier: Apache-2.0
#include "base/device_error.h"

#include <algorithm>
#include <array>

#include "lockstep/base/env.h"

namespace lockstep::base {
namespace {

// The messages of cudaGetErrorString() in CUDA 11 to 13 for errors after which the context is unusable, and the
// messages of cuBLAS and cuDNN when one of their kernels hits such an error.
constexpr std::array<std::string_view, 12> kAsynchronous = {
    "device-side assert triggered",
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "unspecified launch failure",
    "the launch timed out and was terminated",
    "misaligned address",
    "hardware stack error",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "CUDNN_STATUS_EXECUTION_FAILED",
    "CUDNN_STATUS_MAPPING_ERROR",
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::string device_error_hint(std::string_view message, bool launch_blocking) {
  if (!contains(message, "CUDA error") && !contains(message, "CUDA driver error") && !contains(message, "cuDNN error"))
    return "";
  const auto occurs = [&](std::string_view words) { return contains(message, words); };
  if (std::none_of(kAsynchronous.begin(), kAsynchronous.end(), occurs)) return "";
  if (launch_blocking) return "CUDA_LAUNCH_BLOCKING=1 is set: the error names the call whose kernel failed";
  return "the kernel that failed may be an earlier one: run again with CUDA_LAUNCH_BLOCKING=1";
}

bool is_launch_blocking() { return env::get("CUDA_LAUNCH_BLOCKING").value_or("0") == "1"; }

}  // namespace lockstep::base
