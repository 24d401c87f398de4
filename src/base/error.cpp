// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "base/device_error.h"
#include "base/place.h"
#include "lockstep/base/env.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/invariant.h"
#include "lockstep/base/log.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"

namespace lockstep {

Error::Error(ExitCode code, const char* type, const std::string& message, const std::string& hint)
    : std::runtime_error(text::for_people(hint.empty() ? message : fmt::format("{}\n  next  {}", message, hint))),
      code_(code),
      type_(type),
      message_(text::for_people(message)),
      hint_(text::for_people(hint)) {}

void throw_error(const std::string& type, const std::string& message, const std::string& hint) {
  if (type == "UsageError") throw UsageError(message, hint);
  if (type == "DataError") throw DataError(message, hint);
  if (type == "ResourceError") throw ResourceError(message, hint);
  if (type == "IoError") throw IoError(message, hint);
  if (type == "PeerError") throw PeerError(message, hint);
  if (type == "TimeoutError") throw TimeoutError(message, hint);
  if (type == "CorruptionError") throw CorruptionError(message, hint);
  if (type == "ProgramError") throw ProgramError(message, hint);
  throw InternalError(message, hint);
}

std::string base::error_file_path() {
  auto path = env::get("LOCKSTEP_ERROR_FILE");
  if (!path) path = env::get("TORCHELASTIC_ERROR_FILE");
  return path.value_or("");
}

namespace {

// Writes the error in the form that torchelastic reads. "type" inside extraInfo is specific to Lockstep and can veto a
// restart.
void write_error_file(const char* type, const std::string& text, int erred) {
  const std::string path = base::error_file_path();
  if (path.empty()) return;
  const std::string more = erred >= 0 ? fmt::format(", \"erred\": {}", erred) : "";
  const std::string json = fmt::format(
      "{{\"message\": {{\"message\": {}, \"extraInfo\": {{\"type\": {}, \"timestamp\": \"{}\"{}}}}}}}\n",
      text::json_quote(fmt::format("{}: {}", type, text)), text::json_quote(type), std::time(nullptr), more);
  try {
    write_file_atomically(FileSystem::system(), path, json);
  } catch (const std::exception& problem) {
    log::warn("the launcher's error file could not be written: {}", problem.what());
  }
}

int report(ExitCode code, const char* type, const std::string& text, int erred = -1) {
  log::error("{}", text);
  write_error_file(type, text::for_people(text), erred);
  return static_cast<int>(code);
}

}  // namespace

void end_by_invariant(const char* condition, const char* file, int line, const std::string& state) noexcept {
  try {
    (void)report(
        ExitCode::kInternal, "InternalError",
        fmt::format("an invariant of Lockstep does not hold: {} ({}:{}); {}\n  next  please report this with the "
                    "command that led to it",
                    condition, file, line, state));
  } catch (const std::exception&) {
    // There is no memory left for the text.
  }
  ::_exit(static_cast<int>(ExitCode::kInternal));
}

namespace {

std::string indented(const std::string& lines) {
  std::string out;
  for (const char c : lines) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

/// Reports an exception that is not a lockstep::Error: libtorch's, the standard library's, or the program's own.
int report_unknown(const std::exception& error) {
  const bool blocking = base::is_launch_blocking();
  const std::string device_hint = base::device_error_hint(error.what(), blocking);
  const bool is_ours = std::string_view(fault::type_of_unknown()) == "InternalError";
  std::string text = fault::headline(error);
  // For a kernel's error the stack is useful only if the call that started the kernel also waited for it.
  const std::string stack = device_hint.empty() || blocking ? fault::backtrace_text() : "";
  if (!stack.empty()) text += fmt::format("\n  backtrace\n    {}", indented(stack));
  const char* hint = is_ours ? "please report this with the command that led to it"
                             : "your program threw it: catch it or fix its cause (if the backtrace has lines of "
                               "Lockstep and none of yours, please report it)";
  text += fmt::format("\n  next  {}", device_hint.empty() ? hint : device_hint);
  return report(is_ours ? ExitCode::kInternal : ExitCode::kProgram, fault::type_of_unknown(), text);
}

int report_error(const Error& error) {
  const auto* corruption = dynamic_cast<const CorruptionError*>(&error);
  return report(error.code(), error.type(), error.what(), corruption != nullptr ? corruption->rank() : -1);
}

int report_current() {
  try {
    throw;
  } catch (const Error& error) {
    return report_error(error);
  } catch (const std::bad_alloc&) {
    return report_error(shortage_error("continue: out of memory", ENOMEM));
  } catch (const std::system_error& error) {
    if (const auto refused = path_error(error)) return report_error(*refused);
    // EAGAIN in this category means that a library or the program could not start a thread.
    const int number = error.code().value();
    const bool is_ours = error.code().category() == std::generic_category();
    if (!is_shortage(number) || (number == EAGAIN && !is_ours)) return report_unknown(error);
    return report_error(shortage_error(number == EAGAIN ? "start a thread" : "continue", number));
  } catch (const std::exception& error) {
    return report_unknown(error);
  } catch (...) {
    return report_unknown(std::runtime_error("an object that is not a std::exception"));
  }
}

}  // namespace

int base::report_current_exception() noexcept {
  try {
    return report_current();
  } catch (...) {  // not even enough memory for the text
    constexpr std::string_view kWords =
        "error: out of memory\n  next  raise the memory limit (ulimit -v), or use less memory\n";
    (void)!::write(STDERR_FILENO, kWords.data(), kWords.size());
    return static_cast<int>(ExitCode::kResource);
  }
}

int guarded_main(const std::function<int()>& body) noexcept {
  prepare_standard_streams();
  try {
    int code = 0;
    const auto run = [&] { code = body(); };
    fault::in_section(nullptr, run);
    return code;
  } catch (...) {
    return base::report_current_exception();
  }
}

}  // namespace lockstep
