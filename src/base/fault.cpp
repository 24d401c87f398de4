// SPDX-License-Identifier: Apache-2.0
// Captures the backtrace of an exception when it is thrown: the stack is still intact during the search for a handler.
// The search calls the personality routine of each frame that it passes (Itanium C++ ABI). So a frame whose routine
// notes the exception and catches nothing sees every exception that will leave it, and costs nothing if none is thrown.
#include "lockstep/base/fault.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <typeinfo>

#include "base/first_reporter.h"
#include "base/place.h"
#include "base/stack.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/trace.h"

// libstdc++'s own handler, from <ext/...>, which is the default.
namespace __gnu_cxx {
void __verbose_terminate_handler();
}

namespace lockstep {
namespace {

std::atomic<bool> own_program = false;
std::atomic<std::int64_t> rank_now = -1;
std::atomic<std::int64_t> step_now = -1;
std::atomic<std::int64_t> noted_epoch = -1;
std::atomic<std::int64_t> noted_batch = -1;
thread_local const char* current_section = nullptr;
thread_local base::Stack thrown_at;

/// An exception that has been thrown, as recorded by its innermost section.
struct Noted {
  std::exception_ptr exception;
  base::Place place;
  base::Stack stack;
};

/// The most recently noted exceptions, kept alive so that a later exception does not get the same address.
class Notes {
 public:
  void add(const std::exception_ptr& exception, const base::Stack& stack) noexcept {
    const std::lock_guard lock(mutex_);
    for (Noted& each : notes_) {
      if (each.exception != exception) continue;
      // Keeps the innermost section, but takes the step from the training thread once the exception reaches that
      // thread.
      const char* section = each.place.section;
      each.place = base::current_place();
      if (section != nullptr) each.place.section = section;
      return;
    }
    try {
      notes_.push_back({exception, base::current_place(), stack});
      if (notes_.size() > kMost) notes_.pop_front();
    } catch (const std::bad_alloc&) {  // the exception is then reported without its place
    }
  }

  std::optional<Noted> find(const std::exception_ptr& exception) {
    const std::lock_guard lock(mutex_);
    for (const Noted& each : notes_) {
      if (exception && each.exception == exception) return each;
    }
    return std::nullopt;
  }

 private:
  // Loader threads may fail on later batches before the first exception is thrown.
  static constexpr std::size_t kMost = 256;

  std::mutex mutex_;
  std::deque<Noted> notes_;
};

/// Never destroyed: a thread may end after main().
Notes& notes() {
  static auto* const all = new Notes;
  return *all;
}

std::string type_name(const std::exception& error) {
  const char* mangled = typeid(error).name();
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return status == 0 && name ? name.get() : mangled;
}

[[noreturn]] void on_terminate() noexcept {
  static constinit base::FirstReporter reporter;
  if (!reporter.claim()) ::_exit(static_cast<int>(ExitCode::kProgram));
  const std::exception_ptr exception = std::current_exception();
  if (!exception) {
    constexpr std::string_view kWords = "error: std::terminate was called without an exception\n";
    (void)!::write(STDERR_FILENO, kWords.data(), kWords.size());
    std::abort();  // the SIGABRT report has the backtrace
  }
  notes().add(exception, base::capture_stack());
  int code = static_cast<int>(ExitCode::kProgram);
  try {
    std::rethrow_exception(exception);
  } catch (...) {
    code = base::report_current_exception();
  }
  ::_exit(code);
}

}  // namespace

// ---- the frame that sees exceptions pass ----

extern "C" {

__attribute__((visibility("hidden"))) _Unwind_Reason_Code lockstep_watch_personality(int /*version*/,
                                                                                     _Unwind_Action actions,
                                                                                     _Unwind_Exception_Class /*kind*/,
                                                                                     _Unwind_Exception* /*exception*/,
                                                                                     _Unwind_Context* /*context*/) {
  if ((actions & _UA_SEARCH_PHASE) != 0) thrown_at = base::capture_stack();
  return _URC_CONTINUE_UNWIND;
}

// The target of .cfi_personality with encoding 0x9b (indirect, relative, four bytes).
__attribute__((visibility("hidden"), used)) _Unwind_Personality_Fn lockstep_watch_personality_at =
    lockstep_watch_personality;

__attribute__((visibility("hidden"), noinline)) void lockstep_watch_call(void (*run)(void*), void* context) {
  asm volatile(".cfi_personality 0x9b, lockstep_watch_personality_at");
  run(context);
  asm volatile("" ::: "memory");  // no tail call: the frame must exist
}
}

base::Place base::current_place() noexcept {
  return {current_section, rank_now.load(), step_now.load(), noted_epoch.load(), noted_batch.load()};
}

void base::add_place(FixedText& text, const Place& place) noexcept {
  if (place.section != nullptr) text.add(" in ").add(place.section);
  if (place.rank < 0) return;
  text.add(" (rank ").add_number(static_cast<std::uint64_t>(place.rank));
  if (place.step >= 0) {
    text.add(", step ").add_number(static_cast<std::uint64_t>(place.step));
  } else if (place.batch >= 0) {
    text.add(", epoch ").add_number(static_cast<std::uint64_t>(place.epoch));
    text.add(", batch ").add_number(static_cast<std::uint64_t>(place.batch));
  }
  text.add(")");
}

namespace fault {

void this_is_lockstep() noexcept { own_program = true; }
const char* type_of_unknown() noexcept { return own_program ? "InternalError" : "ProgramError"; }

void note_rank(int rank) noexcept { rank_now = rank; }
void note_step(std::int64_t step) noexcept {
  step_now = step;
  for (trace::Sink* sink : trace::sinks()) {
    if (sink != nullptr) sink->step(step);
  }
}
std::int64_t noted_step() noexcept { return step_now; }

int noted_rank() noexcept { return static_cast<int>(rank_now.load()); }
void note_batch(std::int64_t epoch, std::int64_t batch) noexcept {
  noted_epoch = epoch;
  noted_batch = batch;
}

void install_reports() noexcept {
  static std::atomic<bool> installed = false;
  if (installed.exchange(true)) return;
  (void)base::capture_stack();  // loads libgcc now: a signal handler must not
  if (rank_now < 0) {
    const auto rank = env::get("RANK");
    if (rank && rank->find_first_not_of("0123456789") == std::string::npos) rank_now = std::atoll(rank->c_str());
  }
  const std::terminate_handler handler = std::get_terminate();
  if (handler == __gnu_cxx::__verbose_terminate_handler || handler == std::abort || handler == nullptr) {
    std::set_terminate(on_terminate);
  }
  base::install_signal_reports(base::error_file_path().c_str());
  if (const auto file = env::get("LOCKSTEP_ERROR_FILE")) {
    base::install_stack_report(std::filesystem::path(*file).replace_filename(kStackFile).c_str());
  }
}

int stack_signal() noexcept { return SIGRTMIN + 11; }

std::string headline(const std::exception& error) {
  const auto noted = notes().find(std::current_exception());
  base::FixedText place;
  base::add_place(place, noted ? noted->place : base::current_place());
  const std::string words = text::without_backtrace(error.what());
  const std::string said = words.substr(0, words.find_last_not_of('\n') + 1);
  if (own_program) return fmt::format("unexpected error{}: {}", place.c_str(), said);
  return fmt::format("your program threw {}{}: {}", type_name(error), place.c_str(), said);
}

std::string backtrace_text() {
  const auto noted = notes().find(std::current_exception());
  return noted ? base::to_text(noted->stack) : "";
}

void detail::call(const char* section, void (*run)(void*), void* context) {
  const char* const before = current_section;
  if (section != nullptr) current_section = section;
  const std::optional<trace::Span> span =
      section == nullptr ? std::nullopt : std::optional<trace::Span>(std::in_place, trace::Event{.name = section});
  try {
    lockstep_watch_call(run, context);
  } catch (...) {
    notes().add(std::current_exception(), thrown_at);
    current_section = before;
    throw;
  }
  current_section = before;
}

}  // namespace fault
}  // namespace lockstep
