// SPDX-License-Identifier: Apache-2.0
// System resources that may run out: threads, processes, memory, file descriptors. A shortage is an error with
// ExitCode::kResource that names the resource, its limit, and how to raise it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/error.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// This process's limits and usage. None means unlimited or unknown.
struct ResourceLimits {
  std::optional<std::uint64_t> processes;      ///< limit on processes and threads of this user
  std::optional<std::uint64_t> group_tasks;    ///< limit on processes and threads of the control group
  std::optional<std::uint64_t> address_space;  ///< limit on the address space, in bytes
  std::optional<std::uint64_t> mapped;         ///< address space in use, in bytes
  std::optional<std::uint64_t> stack;          ///< address space that a thread's stack takes, in bytes
  std::optional<std::uint64_t> files;          ///< hard limit on open files
};

/// Reads this process's limits and usage from the system.
[[nodiscard]] ResourceLimits resource_limits();

/// Returns true for error numbers that mean a shortage of descriptors, processes, threads or memory.
[[nodiscard]] bool is_shortage(int error) noexcept;

/// The limit that a failed call may have reached, and advice on how to raise it. Neither text ends with a full stop.
struct LimitWords {
  std::string limit;   ///< "processes and threads are allowed: 512 to this user (ulimit -u)"; may be empty
  std::string remedy;  ///< "raise the limit (ulimit -u, ...) or start fewer ..."
};
/// Describes the limit that a call which failed with errno `error` may have reached.
[[nodiscard]] LimitWords words_of_limit(int error, const ResourceLimits& limits);

/// Returns the system's message for an errno. For EFBIG it includes the limit: "File too large: the limit of this shell
/// is 1,048,576 bytes (ulimit -f)".
[[nodiscard]] std::string error_words(int error);

/// Returns advice for a write that failed with `error`, such as freeing space; empty if there is none.
[[nodiscard]] std::string write_remedy(int error);

/// Returns the error "cannot ACTION (Cannot allocate memory): LIMIT" with ACTION replaced by `action`, such as "start a
/// thread".
[[nodiscard]] ResourceError shortage_error(const std::string& action, int error);

/// Throws: shortage_error() if `error` is a shortage, else IoError.
[[noreturn]] void throw_cannot(const std::string& action, int error);

/// Returns a thread's name for debuggers, at most 15 characters: "loader worker 3" for "for loader worker 3 of 4".
[[nodiscard]] std::string thread_name(const std::string& purpose);

/// Starts a thread that receives no signals, named by its purpose. `purpose` is like "for replica 3" or "that watches
/// the store". Throws: ResourceError if the thread cannot be started. A class with several threads must then stop those
/// it has already started.
[[nodiscard]] std::thread start_thread(const std::string& purpose, std::function<void()> body);

/// Starts `count` threads at once and ends them. Call it before using a library that hangs or exits when threads cannot
/// be started.
/// Throws: anything start_thread() throws.
void require_threads(int count, const std::string& purpose);

}  // namespace lockstep

#pragma GCC visibility pop
