// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/platform.h"

#include <ATen/Version.h>

#include "lockstep/tensor/torch_version.h"

namespace lockstep::checkpoint {

std::string instruction_set() {
  // libtorch 1.13 reports it publicly only in this text: "  - CPU capability usage: AVX512\n".
  static const std::string name = [] {
    const std::string config = at::show_config();
    const std::string key = "CPU capability usage: ";
    const auto begin = config.find(key);
    if (begin == std::string::npos) return std::string("unknown");
    const auto from = begin + key.size();
    return config.substr(from, config.find('\n', from) - from);
  }();
  return name;
}

std::string blas_kernels() {
  const auto library = tensor::product_library();
  if (!library) return "";
  return library->core.empty() ? library->version : library->version + " " + library->core;
}

}  // namespace lockstep::checkpoint
