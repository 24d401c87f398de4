// SPDX-License-Identifier: Apache-2.0
// libtorch's threads: their number, and loops that run on them.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Checks that the system allows `count` threads, then calls at::set_num_threads(count). If a thread could not start,
/// libtorch's own pool would wait forever, and OpenMP would end the program. Throws: ResourceError.
void set_threads(int count);

/// Calls at::set_num_threads(count) without that check, for threads that start together. One thread at a time makes the
/// call: in a forked process libtorch rebuilds its pool at the first call, and a concurrent call throws "Invalid thread
/// pool!".
void set_threads_in_turn(int count);

namespace detail {

using RangeBody = void (*)(const void* object, std::int64_t begin, std::int64_t end);

void run_in_parallel(std::int64_t begin, std::int64_t end, std::int64_t grain, const void* object, RangeBody body);

}  // namespace detail

/// Calls `body(from, to)` for ranges that together cover `begin` to `end`, on up to set_threads() threads, including
/// the calling one. Each thread takes one range of at least `grain` numbers. Inside another parallel_for, and for
/// `grain` numbers or fewer, it makes a single call. Blocks: until all calls have ended. Throws: after that, an
/// exception of one of the calls.
///
/// libtorch's at::parallel_for is a template that silently runs on one thread in every file compiled without OpenMP.
/// This function does so only with Clang, whose OpenMP is not libtorch's.
template <class Body>
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, const Body& body) {
  detail::run_in_parallel(begin, end, grain, &body, [](const void* object, std::int64_t from, std::int64_t to) {
    (*static_cast<const Body*>(object))(from, to);
  });
}

}  // namespace lockstep::tensor

#pragma GCC visibility pop
