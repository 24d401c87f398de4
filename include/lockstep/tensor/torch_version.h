// SPDX-License-Identifier: Apache-2.0
// Wraps functions that changed between libtorch 1.13 and 2.x. Only torch_version.cpp tests TORCH_VERSION.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/blas.h"

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Returns the version of libtorch that Lockstep was built with, such as "1.13.1".
[[nodiscard]] std::string libtorch_version();

/// Returns the library with which libtorch multiplies float32 matrices: MKL if libtorch was built with it, as PyTorch's
/// own packages are, else the process's OpenBLAS; none for any other library. OpenCV's OpenBLAS does not count.
[[nodiscard]] std::optional<blas::Library> product_library();

/// Finds "MKL 2024.2" in libtorch's description of its build (at::show_config); "MKL" if it has no version. Pure.
[[nodiscard]] std::string mkl_version(std::string_view config);

/// The autocast state of this thread for one kind of device.
struct AutocastState {
  bool enabled = false;                               ///< autocast is on
  c10::ScalarType dtype = c10::ScalarType::BFloat16;  ///< the dtype of autocast operations
  bool weight_cache = true;                           ///< shared by all kinds of devices
};

/// Returns the autocast state of this thread. Throws: UsageError for a device that is neither CPU nor CUDA.
[[nodiscard]] AutocastState autocast_state(c10::DeviceType device);
/// Sets the autocast state of this thread for a kind of device.
void set_autocast_state(c10::DeviceType device, const AutocastState& state);

/// Turns libuv off in the options of a c10d::TCPStore: libtorch 2.4 and later need it even in a client, and Debian's
/// 2.6 lacks it. The protocol is the same without it.
template <class TcpStoreOptions>
void without_libuv(TcpStoreOptions& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

}  // namespace lockstep::tensor

#pragma GCC visibility pop
