// SPDX-License-Identifier: Apache-2.0
// The stream of the CUDA driver behind libtorch's current one.
#pragma once

namespace lockstep::tensor {

/// The cudaStream_t, which is the driver's CUstream, of the current GPU's current stream; null is its default stream,
/// and what there is in a build without CUDA.
[[nodiscard]] void* native_stream();

}  // namespace lockstep::tensor
