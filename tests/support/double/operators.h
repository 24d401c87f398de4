// SPDX-License-Identifier: Apache-2.0
// The operators of the fake GPUs: CPU kernels over the same memory, in the order of the current stream.
#pragma once

namespace lockstep::testing::make_believe {

/// Registers the operators with libtorch's dispatcher, for the life of the process.
void register_operators();

}  // namespace lockstep::testing::make_believe
