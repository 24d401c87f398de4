// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/device_memory.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

#include "lockstep/base/error.h"
#include "tensor/cuda_parts.h"

namespace lockstep {
namespace tensor {

std::int64_t parse_peak_resident(std::string_view status) {
  constexpr std::string_view kKey = "VmHWM:";
  const std::size_t key = status.find(kKey);
  if (key == std::string_view::npos) return 0;
  const std::size_t digits = status.find_first_of("0123456789", key);
  if (digits == std::string_view::npos) return 0;
  std::int64_t kibibytes = 0;
  std::from_chars(status.data() + digits, status.data() + status.size(), kibibytes);
  return kibibytes * 1024;
}

void forget_memory(int gpu) {
  require_cuda_parts(fmt::format("the cached memory of GPU {} cannot be freed", gpu)).forget_memory(gpu);
}

}  // namespace tensor

MemoryUse memory_use(const c10::Device& device) {
  if (device.is_cuda()) {
    const int gpu = device.index();
    return tensor::require_cuda_parts(fmt::format("the memory of GPU {} cannot be read", gpu)).memory_use(gpu);
  }
  if (!device.is_cpu())
    throw UsageError(fmt::format("the memory of device '{}' cannot be read", device.str()), "use cpu or cuda");
  // getrusage() would include the memory of the program before exec().
  std::ifstream status("/proc/self/status");
  const std::string text{std::istreambuf_iterator<char>(status), {}};
  return {.peak = tensor::parse_peak_resident(text), .reserved = std::nullopt};
}

}  // namespace lockstep
