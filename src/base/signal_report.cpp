// SPDX-License-Identifier: Apache-2.0
// Reports SIGSEGV and similar signals in the handler itself. The handler allocates no memory. The only lock that it
// takes is the dynamic linker's, to find the file that an address belongs to.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/first_reporter.h"
#include "base/place.h"
#include "base/stack.h"
#include "lockstep/base/fault.h"

namespace lockstep::base {
namespace {

constexpr std::array kSignals = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
constexpr std::size_t kStackBytes = std::size_t{128} << 10;

std::array<char, 4096> error_file = {};
std::array<char, 4096> stack_file = {};
FixedText signal_text;  // static, because it is too large for a small stack

void write_all(int file, const char* text, std::size_t size) noexcept {
  while (size > 0) {
    const ssize_t done = ::write(file, text, size);
    if (done <= 0) return;
    text += done;
    size -= static_cast<std::size_t>(done);
  }
}

void write_text(int file, const char* text) noexcept { write_all(file, text, std::strlen(text)); }

const char* name_of(int number) noexcept {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? "signal" : name;
}

void add_frames(FixedText& text, const Stack& stack, const void* skipped_up_to) noexcept {
  int first = 0;
  // The handler's own frames come first, then the frame that got the signal.
  for (int i = 0; i < stack.count; ++i) {
    if (stack.frames[static_cast<std::size_t>(i)] == skipped_up_to) first = i;
  }
  for (int i = first; i < stack.count; ++i) {
    const void* address = stack.frames[static_cast<std::size_t>(i)];
    const Frame frame = find_frame(i == first ? address : static_cast<const char*>(address) - 1);
    if (std::strcmp(frame.function, "_start") == 0) return;
    text.add("\n    #").add_number(static_cast<std::uint64_t>(i - first)).add(" ");
    text.add(frame.function[0] == '\0' ? "?" : frame.function).add("+0x").add_number(frame.offset, 16);
    text.add(" (").add(frame.file).add(")");
    if (std::strcmp(frame.function, "main") == 0) return;
  }
}

void write_error_file(const char* signal, const char* text) noexcept {
  if (error_file[0] == '\0') return;
  const int file = ::open(error_file.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644);
  if (file < 0) return;
  write_text(file, R"({"message": {"message": "SIG)");
  for (const char* at = text; *at != '\0'; ++at) {
    if (*at == '\n') {
      write_all(file, "\\n", 2);
    } else if (*at == '"' || *at == '\\') {
      write_all(file, "\\", 1);
      write_all(file, at, 1);
    } else if (static_cast<unsigned char>(*at) >= 0x20) {
      write_all(file, at, 1);
    }
  }
  write_text(file, R"(", "extraInfo": {"type": "SIG)");
  write_text(file, signal);
  write_text(file, "\"}}}\n");
  ::close(file);
}

const void* program_counter([[maybe_unused]] void* context) noexcept {
#if defined(__x86_64__)
  const auto counter = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  return reinterpret_cast<const void*>(counter);  // NOLINT(performance-no-int-to-ptr): a register holds a number
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
  return nullptr;
#endif
}

void on_signal(int number, siginfo_t* info, void* context) noexcept {
  static constinit FirstReporter reporter;
  if (reporter.claim()) {
    signal_text.add(name_of(number));
    add_place(signal_text, current_place());
    if (number == SIGSEGV || number == SIGBUS) {
      signal_text.add(": address 0x").add_number(reinterpret_cast<std::uint64_t>(info->si_addr), 16);
    }
    signal_text.add("\n  backtrace (mangled names: c++filt decodes them)");
    // The report is written in two parts, because walking a broken stack may itself crash.
    write_text(STDERR_FILENO, "error: SIG");
    write_all(STDERR_FILENO, signal_text.c_str(), signal_text.size());
    const std::size_t head = signal_text.size();
    add_frames(signal_text, capture_stack(), program_counter(context));
    write_all(STDERR_FILENO, signal_text.c_str() + head, signal_text.size() - head);
    write_text(STDERR_FILENO, "\n");
    write_error_file(name_of(number), signal_text.c_str());
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// Writes the stack of this thread. The thread continues afterwards, so its state must not change.
void on_stack_request(int /*number*/, siginfo_t* /*info*/, void* context) noexcept {
  static std::atomic<bool> writing = false;
  if (writing.exchange(true)) return;
  static FixedText text;
  const int kept = errno;
  text.clear();
  add_frames(text, capture_stack(), program_counter(context));
  text.add(fault::kStackEnd);
  const int file = ::open(stack_file.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0600);
  if (file >= 0) {
    write_all(file, text.c_str(), text.size());
    ::close(file);
  }
  errno = kept;
  writing = false;
}

// UCX handles crash signals and SIGHUP once it is loaded, even if only libtorch's MPI needs it, as on Debian 13. Its
// handlers count as none, unless the user has asked for them.
bool is_handled_by_ucx(int signal) noexcept {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
    return false;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here calls setenv
  if (std::getenv("UCX_HANDLE_ERRORS") != nullptr || std::getenv("UCX_ERROR_SIGNALS") != nullptr) return false;
  return std::strstr(find_frame(reinterpret_cast<const void*>(action.sa_handler)).file, "libucs.so") != nullptr;
}

// A rank would outlive its terminal if UCX kept SIGHUP. UCX itself puts back what it replaced: also nohup's SIG_IGN.
void take_hang_up_from_ucx() noexcept {
  struct sigaction action {};
  if (!is_handled_by_ucx(SIGHUP) || ::sigaction(SIGHUP, nullptr, &action) != 0) return;
  const char* file = find_frame(reinterpret_cast<const void*>(action.sa_handler)).file;
  if (void* ucs = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD)) {
    if (void* restore = ::dlsym(ucs, "ucs_debug_disable_signal")) reinterpret_cast<void (*)(int)>(restore)(SIGHUP);
  }
  if (is_handled_by_ucx(SIGHUP)) ::signal(SIGHUP, SIG_DFL);
}

bool is_free(int signal) noexcept {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0) return false;
  const bool is_default = (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
  return is_default || is_handled_by_ucx(signal);
}

}  // namespace

void install_stack_report(const char* file) noexcept {
  if (std::strlen(file) >= stack_file.size() || !is_free(fault::stack_signal())) return;
  std::strncpy(stack_file.data(), file, stack_file.size() - 1);
  struct sigaction action {};
  action.sa_sigaction = on_stack_request;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigaction(fault::stack_signal(), &action, nullptr);
}

void install_signal_reports(const char* path) noexcept {
  if (std::strlen(path) < error_file.size()) std::strncpy(error_file.data(), path, error_file.size() - 1);
  // Gives this thread an alternate stack: after a stack overflow there is no room for a handler.
  stack_t other{};
  if (::sigaltstack(nullptr, &other) == 0 && (other.ss_flags & SS_DISABLE) != 0) {
    other = {};
    other.ss_sp = std::malloc(kStackBytes);  // lives as long as the process
    other.ss_size = kStackBytes;
    if (other.ss_sp != nullptr) ::sigaltstack(&other, nullptr);
  }
  take_hang_up_from_ucx();
  for (const int number : kSignals) {
    if (!is_free(number)) continue;
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigaction(number, &action, nullptr);
  }
}

}  // namespace lockstep::base
