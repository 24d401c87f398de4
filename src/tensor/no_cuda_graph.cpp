// SPDX-License-Identifier: Apache-2.0
// A build without CUDA: nothing to record.
#include "lockstep/tensor/device_graph.h"

namespace lockstep::tensor {

std::unique_ptr<DeviceGraph> make_device_graph() { return nullptr; }

}  // namespace lockstep::tensor
