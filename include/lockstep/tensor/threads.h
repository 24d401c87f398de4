// SPDX-License-Identifier: Apache-2.0
// With how many threads libtorch computes.
#pragma once

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// at::set_num_threads(count), once it is known that the system gives them: short of a thread libtorch's own pool would
/// wait for ever, and OpenMP end the program. Throws: ResourceError.
void set_threads(int count);

}  // namespace lockstep::tensor

#pragma GCC visibility pop
