// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/device_choice.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {
namespace {

c10::Device parse(const std::string& text) {
  try {
    const c10::Device device(text);
    if (device.is_cpu() || device.is_cuda()) return device;
  } catch (const std::exception&) {
    // the error is thrown below
  }
  throw UsageError(fmt::format("there is no device '{}'", text), "use auto, cpu, cuda or cuda:N");
}

c10::Device gpu(int index) { return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)}; }

std::string count_text(const DeviceRequest& request) {
  if (!request.obstacle.problem.empty()) return request.obstacle.problem;
  std::string text = "this host has " + text::counted(request.gpus, "GPU");
  if (!request.visible.empty()) text += fmt::format(" (CUDA_VISIBLE_DEVICES={})", request.visible);
  return text;
}

c10::Device gpu_of_rank(const DeviceRequest& request) {
  if (request.gpus == 0) {
    const std::string& remedy = request.obstacle.remedy;
    throw ResourceError(fmt::format("there is no CUDA device: {}", count_text(request)),
                        remedy.empty() ? "use --device cpu" : remedy + "; or use --device cpu");
  }
  return gpu(request.local_rank % request.gpus);
}

}  // namespace

c10::Device choose_device(const DeviceRequest& request) {
  if (request.wanted == "auto") return request.gpus == 0 ? c10::Device(c10::kCPU) : gpu_of_rank(request);
  const c10::Device device = parse(request.wanted);
  if (device.is_cpu()) return device;
  if (!device.has_index()) return gpu_of_rank(request);
  if (device.index() < request.gpus) return device;
  throw ResourceError(fmt::format("there is no device {}: {}", device.str(), count_text(request)),
                      "GPUs are numbered from 0 among those in CUDA_VISIBLE_DEVICES; or use --device cpu");
}

std::string idle_gpus_warning(const DeviceRequest& request) {
  if (request.wanted != "auto" || request.gpus > 0 || request.devices == 0) return "";
  const std::string gpus = text::counted(request.devices, "GPU");
  if (!request.obstacle.problem.empty()) {
    return fmt::format(
        "this host has {}, but {}: computing on the CPU (if this is intended, set --device cpu; otherwise {})", gpus,
        request.obstacle.problem, request.obstacle.remedy);
  }
  return fmt::format(
      "this host has {}, but CUDA finds none of them: computing on the CPU (if this is intended, set --device cpu; "
      "otherwise compare the driver's version in nvidia-smi with CUDA's; start a container with --gpus all)",
      gpus);
}

bool may_share_gpu(const DeviceRequest& request) {
  return request.share || (request.wanted != "auto" && parse(request.wanted).has_index());
}

}  // namespace lockstep::comm
