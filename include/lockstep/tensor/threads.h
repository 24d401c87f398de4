// SPDX-License-Identifier: Apache-2.0
// The number of libtorch's threads.
#pragma once

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Calls at::set_num_threads(count) after it has checked that the system allows so many threads. Without a thread
/// libtorch's own pool would wait for ever, and OpenMP would end the program. Throws: ResourceError.
void set_threads(int count);

/// Calls at::set_num_threads(count) without that check, for the threads of a team that start together. They take turns:
/// in a forked process libtorch builds its pool again at the first call, and a second call in that moment throws
/// "Invalid thread pool!".
void set_threads_in_turn(int count);

}  // namespace lockstep::tensor

#pragma GCC visibility pop
