// SPDX-License-Identifier: Apache-2.0
// Skips tests with the label gpu if their requirements are missing, and says why.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/base/cuda_library.h"
#include "lockstep/comm/backends.h"
#include "lockstep/tensor/device.h"

namespace lockstep::testing {

/// The reason why there is no GPU; empty if there is one.
inline std::string why_no_gpu() {
  if (!tensor::has_cuda()) return cuda::library().obstacle.problem;
  if (tensor::cuda_device_count() == 0) return "there is no GPU here";
  return "";
}

/// The reason why there is no GPU or no NCCL; empty if both exist.
inline std::string why_no_nccl() {
  if (const std::string reason = why_no_gpu(); !reason.empty()) return reason;
  const std::vector<std::string> backends = built_backends();
  const bool there = std::ranges::any_of(backends, [](const std::string& name) { return name.starts_with("nccl"); });
  return there ? "" : "there is no NCCL here";
}

}  // namespace lockstep::testing

/// The first lines of a test that needs a GPU.
#define LOCKSTEP_NEEDS_GPU() \
  if (const std::string reason = ::lockstep::testing::why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason
#define LOCKSTEP_NEEDS_NCCL() \
  if (const std::string reason = ::lockstep::testing::why_no_nccl(); !reason.empty()) GTEST_SKIP() << reason
