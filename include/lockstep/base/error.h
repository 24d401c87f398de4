// SPDX-License-Identifier: Apache-2.0
// The error types. An error's type determines the exit code and whether the launcher may restart the job. Expected
// outcomes are not errors: they are std::optional or Result<T> (result.h).
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Exit codes of every Lockstep program: from sysexits.h if the meaning fits; 75 to 77 are Lockstep's own.
enum class ExitCode : int {
  kDone = 0,           ///< the program did what it was asked to do
  kUsage = 64,         ///< a usage or configuration error: never restarted
  kData = 65,          ///< a missing or bad file, data set or checkpoint, or a non-finite loss: never restarted
  kResource = 69,      ///< out of memory, or no such device
  kInternal = 70,      ///< a bug in Lockstep: never restarted
  kProgram = 71,       ///< the program's own exception: restarted within the budget
  kIo = 74,            ///< an I/O error, possibly transient: restarted within the budget
  kPeer = 75,          ///< another rank died: restarted within the budget
  kTimeout = 76,       ///< a rank is late: restarted within the budget
  kCorruption = 77,    ///< a processor or memory produced a wrong value: restarted within the budget
  kInterrupted = 130,  ///< Ctrl-C, after the state was saved
  kTerminated = 143,   ///< SIGTERM or a time limit, after the state was saved
};

/// The base class of Lockstep's errors. what() is the full text: the message, then the hint on its own line.
class Error : public std::runtime_error {
 public:
  /// `message` describes the problem, with values and units. `hint` is the next step for the user; it may be empty.
  Error(ExitCode code, const char* type, const std::string& message, const std::string& hint);

  /// Returns the exit code of a program that ends with this error.
  [[nodiscard]] ExitCode code() const noexcept { return code_; }
  /// Returns the error's type, such as "DataError".
  [[nodiscard]] const char* type() const noexcept { return type_; }
  /// Returns the message, with values and units.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  /// Returns the next step for the user; may be empty.
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

 private:
  ExitCode code_;
  const char* type_;
  std::string message_;
  std::string hint_;
};

/// One child of Error per ExitCode above; each is thrown as `throw DataError(message, hint)`.
#define LOCKSTEP_ERROR_TYPE(Name, exit_code)                                \
  class Name : public Error {                                               \
   public:                                                                  \
    explicit Name(const std::string& message, const std::string& hint = "") \
        : Error(exit_code, #Name, message, hint) {}                         \
  }

/// The call, the settings or the environment are wrong: fix them. Never restarted.
LOCKSTEP_ERROR_TYPE(UsageError, ExitCode::kUsage);
/// A file, a data set or a checkpoint is missing or bad, or a loss is not finite. Never restarted.
LOCKSTEP_ERROR_TYPE(DataError, ExitCode::kData);
/// Out of memory, threads, processes or descriptors, or no such device. Restarted within the budget.
LOCKSTEP_ERROR_TYPE(ResourceError, ExitCode::kResource);
/// A bug in Lockstep: please report it. Never restarted.
LOCKSTEP_ERROR_TYPE(InternalError, ExitCode::kInternal);
/// An exception from the program that is not a lockstep::Error, after it has been sent to another process (fault.h).
LOCKSTEP_ERROR_TYPE(ProgramError, ExitCode::kProgram);
/// A disk or network failed, possibly only briefly. Restarted within the budget, unless the disk is full or read-only.
LOCKSTEP_ERROR_TYPE(IoError, ExitCode::kIo);
/// Another rank, or the launcher, is gone. Restarted within the budget.
LOCKSTEP_ERROR_TYPE(PeerError, ExitCode::kPeer);
/// A rank is late, but it is not known to be dead. Restarted within the budget.
LOCKSTEP_ERROR_TYPE(TimeoutError, ExitCode::kTimeout);

#undef LOCKSTEP_ERROR_TYPE

/// The guard has found a rank whose numbers differ from those of other ranks. Restarted within the budget; an elastic
/// job excludes the rank's host from then on.
class CorruptionError : public Error {
 public:
  explicit CorruptionError(const std::string& message, const std::string& hint = "", int rank = -1)
      : Error(ExitCode::kCorruption, "CorruptionError", message, hint), rank_(rank) {}
  /// Returns the rank with the wrong numbers; -1 if unknown.
  [[nodiscard]] int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

/// Rebuilds an error of type `type` ("PeerError", ...) sent by another process; an unknown type becomes an
/// InternalError. Throws: always that error.
[[noreturn]] void throw_error(const std::string& type, const std::string& message, const std::string& hint = "");

/// Runs a program's body. An error that escapes it is printed once, written to the launcher's error file (the path in
/// LOCKSTEP_ERROR_FILE or TORCHELASTIC_ERROR_FILE, in torchelastic's JSON) and turned into the exit code. An exception
/// that is not a lockstep::Error gives ExitCode::kProgram and is printed with its type, place and backtrace. Never
/// throws.
[[nodiscard]] int guarded_main(const std::function<int()>& body) noexcept;

}  // namespace lockstep

#pragma GCC visibility pop
