// SPDX-License-Identifier: Apache-2.0
// Facts about a device for other libraries and for users: a stream as CUDA knows it, the GPU of the machine, its model.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Stream.h>

#include <string>

namespace lockstep::tensor {

/// A cudaStream_t.
[[nodiscard]] void* cuda_stream(const c10::Stream& stream);

/// "0000:3b:00.0". If it is empty, `problem` says why.
[[nodiscard]] std::string cuda_pci_address(int gpu, std::string& problem);

/// "NVIDIA A100-PCIE-40GB"; "GPU" if CUDA does not know it.
[[nodiscard]] std::string cuda_name(int gpu);

}  // namespace lockstep::tensor
