// SPDX-License-Identifier: Apache-2.0
// What libraries of others and people ask for: a stream as CUDA knows it, which GPU of the machine a device is, and its
// model.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Stream.h>

#include <string>

namespace lockstep::tensor {

/// A cudaStream_t.
[[nodiscard]] void* cuda_stream(const c10::Stream& stream);

/// "0000:3b:00.0". Empty: `problem` says why.
[[nodiscard]] std::string cuda_pci_address(int gpu, std::string& problem);

/// "NVIDIA A100-PCIE-40GB"; "GPU" where CUDA does not know it.
[[nodiscard]] std::string cuda_name(int gpu);

}  // namespace lockstep::tensor
