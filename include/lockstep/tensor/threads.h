// SPDX-License-Identifier: Apache-2.0
// libtorch's threads: how many there are, and loops that run on them.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Calls at::set_num_threads(count) after it has checked that the system allows so many threads. Without a thread
/// libtorch's own pool would wait for ever, and OpenMP would end the program. Throws: ResourceError.
void set_threads(int count);

/// Calls at::set_num_threads(count) without that check, for the threads of a team that start together. They take turns:
/// in a forked process libtorch builds its pool again at the first call, and a second call in that moment throws
/// "Invalid thread pool!".
void set_threads_in_turn(int count);

namespace detail {

using RangeBody = void (*)(const void* of, std::int64_t begin, std::int64_t end);

void run_in_parallel(std::int64_t begin, std::int64_t end, std::int64_t grain, const void* of, RangeBody body);

}  // namespace detail

/// Calls `body(from, to)` for ranges that together are `begin` to `end`, on as many threads as set_threads() said, the
/// calling one among them; each takes `grain` numbers at least, and none more than one range. Blocks until all are
/// done; what one of them threw is thrown then. In a range of another parallel_for, and for `grain` numbers or fewer,
/// it is one call.
///
/// libtorch's at::parallel_for is a template that runs on one thread in every file that is compiled without OpenMP, and
/// says nothing. This one does so with Clang alone, whose OpenMP is not libtorch's.
template <class Body>
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, const Body& body) {
  detail::run_in_parallel(begin, end, grain, &body, [](const void* of, std::int64_t from, std::int64_t to) {
    (*static_cast<const Body*>(of))(from, to);
  });
}

}  // namespace lockstep::tensor

#pragma GCC visibility pop
