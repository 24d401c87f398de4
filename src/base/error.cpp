// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <exception>
#include <new>

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

}  // namespace

int guarded_main(const std::function<int()>& body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    return report(error.code(), error.type(), error.what());
  } catch (const std::bad_alloc&) {
    return report(ExitCode::kResource, "ResourceError", "out of memory\n  next  use a smaller batch_size");
  } catch (const std::exception& error) {
    return report(ExitCode::kInternal, "InternalError",
                  fmt::format("unexpected error: {}\n  next  please report this with the command that led to it",
                              text::without_backtrace(error.what())));
  } catch (...) {
    return report(ExitCode::kInternal, "InternalError", "an object that is no std::exception was thrown");
  }
}

}  // namespace lockstep
