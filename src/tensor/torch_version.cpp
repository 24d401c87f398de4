// SPDX-License-Identifier: Apache-2.0
// The libtorch shim: only this file has conditionals on TORCH_VERSION.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include "lockstep/tensor/torch_version.h"

#include <ATen/autocast_mode.h>
#include <ATen/Context.h>
#include <ATen/Version.h>
#include <c10/core/Device.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "lockstep/base/error.h"

// Since libtorch 2.4 autocast takes the device as an argument; before, each device had its own function.
#define LOCKSTEP_AUTOCAST_BY_DEVICE (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4))

namespace lockstep::tensor {
namespace {

void require_known(c10::DeviceType device) {
  if (device == c10::DeviceType::CPU || device == c10::DeviceType::CUDA) return;
  throw UsageError(
      fmt::format("autocast is not supported on device '{}'", c10::DeviceTypeName(device, /*lower_case=*/true)),
      "use cpu or cuda");
}

}  // namespace

std::string libtorch_version() {
  return fmt::format("{}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH);
}

std::string mkl_version(std::string_view config) {
  constexpr std::string_view kKey = "Math Kernel Library Version ";
  const std::size_t key = config.find(kKey);
  if (key == std::string_view::npos) return "MKL";
  const std::size_t begin = key + kKey.size();
  return fmt::format("MKL {}", config.substr(begin, config.find_first_not_of("0123456789.", begin) - begin));
}

std::optional<blas::Library> product_library() {
  if (at::hasMKL()) return blas::Library{.version = mkl_version(at::show_config())};
  return blas::loaded();
}

AutocastState autocast_state(c10::DeviceType device) {
  require_known(device);
  AutocastState state;
  state.weight_cache = at::autocast::is_autocast_cache_enabled();
#if LOCKSTEP_AUTOCAST_BY_DEVICE
  state.enabled = at::autocast::is_autocast_enabled(device);
  state.dtype = at::autocast::get_autocast_dtype(device);
#else
  const bool cpu = device == c10::DeviceType::CPU;
  state.enabled = cpu ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
  state.dtype = cpu ? at::autocast::get_autocast_cpu_dtype() : at::autocast::get_autocast_gpu_dtype();
#endif
  return state;
}

void set_autocast_state(c10::DeviceType device, const AutocastState& state) {
  require_known(device);
  at::autocast::set_autocast_cache_enabled(state.weight_cache);
#if LOCKSTEP_AUTOCAST_BY_DEVICE
  at::autocast::set_autocast_enabled(device, state.enabled);
  at::autocast::set_autocast_dtype(device, state.dtype);
#else
  if (device == c10::DeviceType::CPU) {
    at::autocast::set_cpu_enabled(state.enabled);
    at::autocast::set_autocast_cpu_dtype(state.dtype);
  } else {
    at::autocast::set_enabled(state.enabled);
    at::autocast::set_autocast_gpu_dtype(state.dtype);
  }
#endif
}

}  // namespace lockstep::tensor
