// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/self_report.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <system_error>
#include <thread>

#include "launch/hangs/stack_words.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/file_system.h"

namespace lockstep::launch {
namespace {

constexpr auto kAnswerLook = std::chrono::milliseconds(5);

std::string answer_text(const std::filesystem::path& file) {
  try {
    return FileSystem::system().read(file);
  } catch (const Error&) {  // the file does not exist yet
    return "";
  }
}

}  // namespace

bool catches(std::string_view status, int signal) {
  constexpr std::string_view kName = "\nSigCgt:\t";
  const auto at = status.find(kName);
  if (at == std::string_view::npos) return false;
  std::uint64_t caught = 0;
  const char* begin = status.data() + at + kName.size();
  std::from_chars(begin, status.data() + status.size(), caught, 16);
  return ((caught >> (static_cast<unsigned>(signal) - 1U)) & 1U) != 0;
}

SelfReport ask_for_stack(pid_t pid, const std::filesystem::path& file, std::chrono::milliseconds limit) {
  const int signal = fault::stack_signal();
  if (!catches(answer_text("/proc/" + std::to_string(pid) + "/status"), signal)) {
    return {.problem = "its program does not handle the signal"};
  }
  std::error_code unknown;
  std::filesystem::remove(file, unknown);
  // The signal goes to the main thread, which is the late one.
  if (::syscall(SYS_tgkill, pid, pid, signal) != 0) return {.problem = std::generic_category().message(errno)};
  const TimePoint deadline = SystemClock::instance().now() + limit;
  while (SystemClock::instance().now() < deadline) {
    const std::string text = answer_text(file);
    if (text.ends_with(fault::kStackEnd)) return {.frames = parse_frames(text)};
    std::this_thread::sleep_for(kAnswerLook);
  }
  return {.problem = "it did not respond"};
}

}  // namespace lockstep::launch
