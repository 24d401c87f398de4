// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/nccl/cuda_device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "lockstep/base/cuda_library.h"
#include "lockstep/tensor/device.h"

namespace lockstep::comm {
namespace {

/// Returns the driver's UUID of the device; empty if it has none. For every slice (MIG) the runtime returns the name of
/// the whole GPU.
std::string driver_uuid(int device) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (driver == nullptr) return "";
  using Get = int (*)(int*, int);
  using Uuid = int (*)(unsigned char*, int);
  const auto get = reinterpret_cast<Get>(::dlsym(driver, "cuDeviceGet"));
  const auto uuid = reinterpret_cast<Uuid>(::dlsym(driver, "cuDeviceGetUuid_v2"));
  std::array<unsigned char, 16> bytes{};
  int handle = 0;
  if (get == nullptr || uuid == nullptr || get(&handle, device) != 0 || uuid(bytes.data(), handle) != 0) return "";
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace

GpuId gpu_id(const c10::Device& device) {
  if (cuda::library().parts == nullptr) return {device.str(), ""};
  const std::string address = tensor::pci_address(device.index());
  const std::string uuid = driver_uuid(device.index());
  return {.unique = uuid.empty() ? address : uuid, .slot = address};
}

}  // namespace lockstep::comm
