// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <exception>
#include <new>

#include "base/device_error.h"
#include "lockstep/base/env.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep {

Error::Error(ExitCode code, const char* type, const std::string& message, const std::string& hint)
    : std::runtime_error(hint.empty() ? message : fmt::format("{}\n  next  {}", message, hint)),
      code_(code),
      type_(type),
      message_(message),
      hint_(hint) {}

void throw_error(const std::string& type, const std::string& message, const std::string& hint) {
  if (type == "UsageError") throw UsageError(message, hint);
  if (type == "DataError") throw DataError(message, hint);
  if (type == "ResourceError") throw ResourceError(message, hint);
  if (type == "IoError") throw IoError(message, hint);
  if (type == "PeerError") throw PeerError(message, hint);
  if (type == "TimeoutError") throw TimeoutError(message, hint);
  throw InternalError(message, hint);
}

namespace {

// torchelastic reads this form; "type" inside extraInfo is ours and vetoes a restart.
void write_error_file(const char* type, const std::string& text) {
  auto path = env::get("LOCKSTEP_ERROR_FILE");
  if (!path) path = env::get("TORCHELASTIC_ERROR_FILE");
  if (!path) return;
  const std::string json =
      fmt::format("{{\"message\": {{\"message\": {}, \"extraInfo\": {{\"type\": {}, \"timestamp\": \"{}\"}}}}}}\n",
                  text::json_quote(fmt::format("{}: {}", type, text)), text::json_quote(type), std::time(nullptr));
  try {
    write_file_atomically(FileSystem::system(), *path, json);
  } catch (const std::exception& problem) {
    log::warn("the launcher's error file was not written: {}", problem.what());
  }
}

int report(ExitCode code, const char* type, const std::string& text) {
  log::error("{}", text);
  write_error_file(type, text);
  return static_cast<int>(code);
}

/// What is no Error of ours: libtorch's, the standard library's, the program's own.
int report_unexpected(const std::exception& error) {
  const bool blocking = base::is_launch_blocking();
  const std::string hint = base::device_error_hint(error.what(), blocking);
  // The stack tells something only where the kernel was waited for in the call that started it.
  const bool show_stack = blocking && !hint.empty();
  std::string words = show_stack ? error.what() : text::without_backtrace(error.what());
  words.erase(words.find_last_not_of('\n') + 1);
  return report(ExitCode::kInternal, "InternalError",
                fmt::format("unexpected error: {}\n  next  {}", words,
                            hint.empty() ? "please report this with the command that led to it" : hint));
}

}  // namespace

int guarded_main(const std::function<int()>& body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    return report(error.code(), error.type(), error.what());
  } catch (const std::bad_alloc&) {
    return report(ExitCode::kResource, "ResourceError", "out of memory\n  next  use a smaller batch_size");
  } catch (const std::exception& error) {
    return report_unexpected(error);
  } catch (...) {
    return report(ExitCode::kInternal, "InternalError", "an object that is no std::exception was thrown");
  }
}

}  // namespace lockstep
