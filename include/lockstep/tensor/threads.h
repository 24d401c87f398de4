// SPDX-License-Identifier: Apache-2.0
// The number of libtorch's threads.
#pragma once

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Calls at::set_num_threads(count) after it has checked that the system allows so many threads. Without a thread
/// libtorch's own pool would wait for ever, and OpenMP would end the program. Throws: ResourceError.
void set_threads(int count);

}  // namespace lockstep::tensor

#pragma GCC visibility pop
