// SPDX-License-Identifier: Apache-2.0
// A fake GPU that counts the host's waits for it. Its memory is the host's, and its operators are the CPU's. The
// operators show where the host would wait for a real device: a number read back, a size that depends on values, a copy
// from or to memory that is not pinned.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace lockstep::testing {

/// The device: move tensors there with `tensor.to(make_believe_gpu())`, networks with `net->to(make_believe_gpu())`.
/// Its type is cuda, so that all code runs as for a GPU. Call why_no_make_believe_gpu() first.
[[nodiscard]] c10::Device make_believe_gpu();

/// The reason why there is no fake GPU; empty if there is one. It needs a libtorch without CUDA, with the interfaces of
/// libtorch 1.13.
[[nodiscard]] std::string why_no_make_believe_gpu();

/// Counts waits on all threads from its construction. Only one object at a time.
class HostWaits {
 public:
  HostWaits();
  ~HostWaits();
  HostWaits(const HostWaits&) = delete;
  HostWaits& operator=(const HostWaits&) = delete;

  /// The causes of waits: "aten::_local_scalar_dense", "copy to the host", "copy from pageable memory", ... With
  /// LOCKSTEP_TRACE_WAITS=1, the call stack of each wait is printed to standard error.
  [[nodiscard]] static std::vector<std::string> found();
  /// The number of calls to an operator on the device, such as "aten::_foreach_norm".
  [[nodiscard]] static int calls(const std::string& name);
};

}  // namespace lockstep::testing

/// The first line of a test that needs the fake GPU.
#define LOCKSTEP_NEEDS_MAKE_BELIEVE_GPU() \
  if (const std::string reason = ::lockstep::testing::why_no_make_believe_gpu(); !reason.empty()) GTEST_SKIP() << reason
