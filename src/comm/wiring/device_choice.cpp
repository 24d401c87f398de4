// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/device_choice.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

c10::Device parse(const std::string& text) {
  try {
    const c10::Device device(text);
    if (device.is_cpu() || device.is_cuda()) return device;
  } catch (const std::exception&) {
    // said below
  }
  throw UsageError(fmt::format("there is no device '{}'", text), "use auto, cpu, cuda or cuda:N");
}

c10::Device gpu(int index) { return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)}; }

std::string count_text(const DeviceRequest& request) {
  if (!request.has_cuda) return "this libtorch was built without CUDA";
  std::string text = fmt::format("this host has {} GPU{}", request.gpus, request.gpus == 1 ? "" : "s");
  if (!request.visible.empty()) text += fmt::format(" (CUDA_VISIBLE_DEVICES={})", request.visible);
  return text;
}

[[noreturn]] void throw_outnumbered(const DeviceRequest& request) {
  throw ResourceError(
      fmt::format("{} ranks on this host need a GPU each, and {}", request.local_world, count_text(request)),
      fmt::format("start {} rank{} here (--nproc-per-node {}), or --device cpu; LOCKSTEP_SHARE_GPUS=1 lets ranks share "
                  "a GPU, for tests",
                  request.gpus, request.gpus == 1 ? "" : "s", request.gpus));
}

c10::Device gpu_of_rank(const DeviceRequest& request) {
  if (request.gpus == 0) {
    throw ResourceError(fmt::format("there is no CUDA device: {}", count_text(request)), "use --device cpu");
  }
  if (request.share) return gpu(request.local_rank % request.gpus);
  if (request.local_world > request.gpus) throw_outnumbered(request);
  return gpu(request.local_rank);
}

}  // namespace

c10::Device choose_device(const DeviceRequest& request) {
  if (request.wanted == "auto") return request.gpus == 0 ? c10::Device(c10::kCPU) : gpu_of_rank(request);
  const c10::Device device = parse(request.wanted);
  if (device.is_cpu()) return device;
  if (!device.has_index()) return gpu_of_rank(request);
  if (device.index() < request.gpus) return device;
  throw ResourceError(fmt::format("there is no device {}: {}", device.str(), count_text(request)),
                      "GPUs are counted from 0 among those of CUDA_VISIBLE_DEVICES; or use --device cpu");
}

}  // namespace lockstep::comm
