// SPDX-License-Identifier: Apache-2.0
// What the system gives to a process and may have no more of: threads, processes, memory, file descriptors. Running out
// is one error with ExitCode::kResource that says what ran out, its limit, and how to raise it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/error.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// What is allowed to this process, and what it has; none: unlimited, or not known.
struct ResourceLimits {
  std::optional<std::uint64_t> processes;      ///< processes and threads of this user
  std::optional<std::uint64_t> group_tasks;    ///< processes and threads of the control group
  std::optional<std::uint64_t> address_space;  ///< bytes
  std::optional<std::uint64_t> mapped;         ///< bytes of the address space that are taken
  std::optional<std::uint64_t> stack;          ///< bytes that a thread's stack takes of it
  std::optional<std::uint64_t> files;          ///< open files, the hard limit
};

[[nodiscard]] ResourceLimits resource_limits();

/// True of the error numbers that say "no more of it": descriptors, processes, threads, memory.
[[nodiscard]] bool is_shortage(int error) noexcept;

/// The limit that a call may have met which failed with `error`, and how to raise it: two sentences without a full
/// stop. Pure.
struct LimitWords {
  std::string limit;   ///< "512 processes and threads of this user are allowed (ulimit -u)"; may be empty
  std::string remedy;  ///< "raise the limit (ulimit -u, ...) or start fewer ..."
};
[[nodiscard]] LimitWords words_of_limit(int error, const ResourceLimits& limits);

/// "cannot WHAT (Cannot allocate memory): LIMIT". `what`: "start a thread that watches the store".
[[nodiscard]] ResourceError shortage_error(const std::string& what, int error);

/// Throws: ResourceError as shortage_error() where `error` is a shortage, else IoError.
[[noreturn]] void throw_cannot(const std::string& what, int error);

/// A thread that takes no signals. `purpose`: "for replica 3", "that watches the store".
/// Throws: ResourceError where it cannot be had. A class with several of them ends those that have started then.
[[nodiscard]] std::thread start_thread(const std::string& purpose, std::function<void()> body);

/// Starts so many threads at a time and ends them: for a library that hangs or exits where it cannot have them.
/// Throws: ResourceError as start_thread().
void require_threads(int count, const std::string& purpose);

}  // namespace lockstep

#pragma GCC visibility pop
