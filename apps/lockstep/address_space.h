// SPDX-License-Identifier: Apache-2.0
// Checks the limit on address space before a program with libtorch starts. OpenBLAS retries forever if it has no room
// for a thread's buffer, and an exception before main() cannot be caught.
#pragma once

namespace lockstep::apps {

/// Returns OpenBLAS's number of threads in a process: the first of its variables that is a number, otherwise one if
/// `one_by_default`, otherwise one thread per processor.
[[nodiscard]] int blas_threads(bool one_by_default);

/// Throws: ResourceError if the limit is below what lockstep-worker's libraries reserve before main().
void require_address_space(int threads);

/// Warns if a user's program would have too little, if it uses libtorch.
void warn_of_address_space(int threads);

}  // namespace lockstep::apps
