// SPDX-License-Identifier: Apache-2.0
#include "train/settings/precision.h"

#include <ATen/Context.h>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"

namespace lockstep::train {
namespace {

std::string tf32_text() {
  const bool products = at::globalContext().allowTF32CuBLAS();
  const bool convolutions = at::globalContext().allowTF32CuDNN();
  if (products && convolutions) return ", TF32";
  if (convolutions) return ", TF32 in convolutions";
  return products ? ", TF32 in matrix products" : ", no TF32";
}

}  // namespace

void require_amp(const TrainConfig& config, const c10::Device& device) {
  if (config.amp != "fp16" || !device.is_cpu()) return;
  throw UsageError("amp is fp16, but the device is the CPU", setting_words("amp=bf16") + ", or amp=none");
}

void use_tf32(const TrainConfig& config) {
  if (config.tf32 == "default") return;
  const bool on = config.tf32 == "true";
  at::globalContext().setAllowTF32CuBLAS(on);
  at::globalContext().setAllowTF32CuDNN(on);
}

std::string precision_text(const TrainConfig& config, const c10::Device& device) {
  std::string text = config.amp == "none" ? "float32" : config.amp + " autocast";
  if (config.channels_last) text += ", channels last";
  if (config.scales_loss()) text += ", scaled loss";
  return device.is_cuda() ? text + tf32_text() : text;
}

std::string launch_blocking_text(const c10::Device& device) {
  if (!device.is_cuda() || env::get("CUDA_LAUNCH_BLOCKING") != "1") return "";
  return "CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel; slow, for debugging";
}

}  // namespace lockstep::train
