// SPDX-License-Identifier: Apache-2.0
// CUDA graphs of the fake GPUs.
#pragma once

#include <memory>

#include "lockstep/tensor/device_graph.h"

namespace lockstep::testing::make_believe {

[[nodiscard]] std::unique_ptr<tensor::DeviceGraph> make_graph();

/// Does the same as tensor::is_recording().
[[nodiscard]] bool is_recording();

}  // namespace lockstep::testing::make_believe
