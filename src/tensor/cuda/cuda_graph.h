// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/tensor/device_graph.h"

namespace lockstep::tensor {

[[nodiscard]] std::unique_ptr<DeviceGraph> make_cuda_graph();

/// Implements tensor::is_recording().
[[nodiscard]] bool cuda_is_recording();

}  // namespace lockstep::tensor
