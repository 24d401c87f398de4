// SPDX-License-Identifier: Apache-2.0
// Facts about a GPU, for other libraries and for users: its streams, its PCI address and its model.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Stream.h>

#include <string>

namespace lockstep::tensor {

/// Returns the stream as a cudaStream_t.
[[nodiscard]] void* cuda_stream(const c10::Stream& stream);

/// Returns the PCI address with CUDA's capital letters, "0000:3B:00.0". If it is empty, `problem` says why.
[[nodiscard]] std::string cuda_pci_address(int gpu, std::string& problem);

/// Returns the model, "NVIDIA A100-PCIE-40GB"; "GPU" if CUDA does not report it.
[[nodiscard]] std::string cuda_name(int gpu);

}  // namespace lockstep::tensor
