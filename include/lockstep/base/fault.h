// SPDX-License-Identifier: Apache-2.0
// Reports programs that end with something other than one of Lockstep's errors: an exception of their own, or a signal
// such as SIGSEGV. The program records its place (rank, step, section) here as it runs, so that the report can name it.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep::fault {

/// Marks this process as one of Lockstep's own commands, all of which call this first. From then on an exception that
/// is not a lockstep::Error counts as a bug in Lockstep. Without the call the program is a user's, and such an
/// exception counts as the program's own (ExitCode::kProgram).
void this_is_lockstep() noexcept;

/// Starts reporting uncaught exceptions, SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL on stderr and in the launcher's
/// error file, with a backtrace. An uncaught exception then ends the process with ExitCode::kProgram; a signal ends it
/// as before. Handlers that the program has set are kept. init() and spawn() call this.
void install_reports() noexcept;

/// The name of the file, beside LOCKSTEP_ERROR_FILE, for a rank's stack.
inline constexpr const char* kStackFile = "stack.txt";
/// The last line of a complete stack in that file.
inline constexpr const char* kStackEnd = "\nend\n";
/// Returns the signal that makes a thread write its stack into that file and continue, in a process that has called
/// install_reports() under a launcher. It is for launchers that are not allowed to trace the process.
[[nodiscard]] int stack_signal() noexcept;

/// Records this process's rank.
void note_rank(int rank) noexcept;
/// Records the step that this thread is starting, for error messages; steps count from 1, and -1 means none.
void note_step(std::int64_t step) noexcept;
/// Records the epoch and batch that this thread got from a DataLoader, for error messages.
void note_batch(std::int64_t epoch, std::int64_t batch) noexcept;
/// Returns the last recorded step; -1 outside a step.
[[nodiscard]] std::int64_t noted_step() noexcept;
/// Returns the last recorded rank; -1 if none.
[[nodiscard]] int noted_rank() noexcept;

/// Returns the headline for an exception from the program: "your program threw std::runtime_error in forward (rank 1,
/// step 13): boom". It describes the exception being handled, so call it in a catch block.
[[nodiscard]] std::string headline(const std::exception& error);
/// Returns the backtrace from where the exception being handled was thrown, one line per frame; empty if unknown.
[[nodiscard]] std::string backtrace_text();
/// Returns the type under which an exception that is not a lockstep::Error is reported to the launcher and other ranks:
/// "ProgramError", or in Lockstep's own commands "InternalError".
[[nodiscard]] const char* type_of_unknown() noexcept;

namespace detail {
/// Calls run(context) in the section. If an exception escapes, records it with its place and backtrace.
void call(const char* section, void (*run)(void*), void* context);
}  // namespace detail

/// Runs the program's code as the section `section` ("forward", "loss", "dataset"), a string with static lifetime.
/// Exceptions pass through unchanged. Returns the result of `body`, by value.
template <class Body>
auto in_section(const char* section, Body&& body) -> std::decay_t<decltype(body())> {
  using Result = std::decay_t<decltype(body())>;
  if constexpr (std::is_void_v<Result>) {
    using Function = std::remove_reference_t<Body>;
    detail::call(
        section, [](void* context) { (*static_cast<Function*>(context))(); },
        const_cast<void*>(static_cast<const void*>(&body)));
  } else {
    std::optional<Result> result;
    in_section(section, [&] { result.emplace(body()); });
    return std::move(*result);
  }
}

}  // namespace lockstep::fault

#pragma GCC visibility pop
