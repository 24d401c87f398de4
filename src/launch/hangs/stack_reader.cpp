// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/stack_reader.h"

#include <elfutils/libdwfl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "launch/hangs/process_state.h"
#include "launch/hangs/stack_words.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"

namespace lockstep::launch {
namespace {

// One thread of another process, which is stopped while this object lives.

/// Owned by the thread that created it: the kernel accepts ptrace requests only from that thread.
class TracedThread {
 public:
  /// Stops the thread. Blocks: until it is stopped, or until `deadline`.
  TracedThread(pid_t thread, TimePoint deadline);
  /// Resumes the thread, unless it was already stopped; a signal that arrived in between is delivered.
  ~TracedThread();
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;

  [[nodiscard]] bool is_stopped() const { return is_stopped_; }
  /// Returns errno if the request was refused; 0 if it was allowed or the thread does not exist.
  [[nodiscard]] int refusal() const { return refusal_; }

 private:
  pid_t thread_;
  int refusal_ = 0;
  bool is_stopped_ = false;
  int signal_ = 0;  // signal that was about to be delivered; 0 if none
};

constexpr auto kHeldLook = std::chrono::microseconds(200);

// Uses PTRACE_SEIZE: PTRACE_ATTACH would send a SIGSTOP that remains if this process is killed in between.
TracedThread::TracedThread(pid_t thread, TimePoint deadline) : thread_(thread) {
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    refusal_ = errno == ESRCH ? 0 : errno;
    return;
  }
  if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return;
  for (;;) {
    int status = 0;
    const pid_t found = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (found < 0 && errno != EINTR) return;
    if (found == thread) {
      is_stopped_ = WIFSTOPPED(status);
      const bool is_ours = (status >> 16) == PTRACE_EVENT_STOP;
      if (is_stopped_ && !is_ours) signal_ = WSTOPSIG(status);
      return;
    }
    if (SystemClock::instance().now() >= deadline) return;  // the kernel releases it when the tracing thread ends
    std::this_thread::sleep_for(kHeldLook);
  }
}

TracedThread::~TracedThread() {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the system call takes the number in a pointer's place
  if (is_stopped_)
    ::ptrace(PTRACE_DETACH, thread_, nullptr, reinterpret_cast<void*>(static_cast<std::intptr_t>(signal_)));
}

namespace fs = std::filesystem;

constexpr std::size_t kMostFrames = 64;
// The time limit for a thread that is in the kernel and cannot be interrupted. Other threads stop as soon as they get a
// CPU.
constexpr auto kStopTime = std::chrono::milliseconds(200);

std::string file_part(const char* path) { return path == nullptr ? "" : fs::path(path).filename().string(); }

/// State shared by the reading thread and the thread waiting for it. It lives until both have released it.
struct Reading {
  std::mutex mutex;
  std::condition_variable has_ended;
  ProcessStacks stacks;
  bool is_done = false;
};

/// libdw's view of a process and its files.
class Unwinder {
 public:
  Unwinder(pid_t pid, TimePoint deadline) : pid_(pid), deadline_(deadline) {
    static char* no_path = nullptr;
    callbacks_.find_elf = dwfl_linux_proc_find_elf;
    // Does not search for debug information, because the search may query a server; the symbol tables are enough for
    // the names.
    callbacks_.find_debuginfo = [](auto... /*unused*/) { return -1; };
    callbacks_.debuginfo_path = &no_path;
    dwfl_.reset(::dwfl_begin(&callbacks_));
  }

  [[nodiscard]] TimePoint deadline() const { return deadline_; }

  /// Opens the process. Returns 0 or errno.
  int open() {
    if (!dwfl_) return ENOMEM;
    const int problem = ::dwfl_linux_proc_report(dwfl_.get(), pid_);
    if (problem != 0) return problem > 0 ? problem : EIO;
    ::dwfl_report_end(dwfl_.get(), nullptr, nullptr);
    // "true": we stop the threads ourselves, each while it is being read.
    const int attached = ::dwfl_linux_proc_attach(dwfl_.get(), pid_, true);
    return attached == 0 ? 0 : attached > 0 ? attached : EIO;
  }

  /// Returns the frames of a thread, which must be stopped.
  std::vector<StackFrame> frames_of(pid_t thread) {
    frames_.clear();
    ::dwfl_getthread_frames(dwfl_.get(), thread, &Unwinder::on_frame, this);
    return frames_;
  }

 private:
  static int on_frame(Dwfl_Frame* state, void* self) noexcept {
    Dwarf_Addr counter = 0;
    bool is_exact = false;
    if (!::dwfl_frame_pc(state, &counter, &is_exact)) return DWARF_CB_ABORT;
    return static_cast<Unwinder*>(self)->add(is_exact ? counter : counter - 1, counter);
  }

  // Adds a frame. For a return address, it looks up the call before it, because the address itself may already belong
  // to another function.
  int add(Dwarf_Addr address, Dwarf_Addr counter) noexcept {
    try {
      const auto known = names_.find(address);
      frames_.push_back(known != names_.end() ? known->second : names_[address] = name(address, counter - address));
    } catch (const std::exception&) {
      return DWARF_CB_ABORT;
    }
    return frames_.size() < kMostFrames && SystemClock::instance().now() < deadline_ ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  StackFrame name(Dwarf_Addr address, Dwarf_Addr after) {
    Dwfl_Module* module = ::dwfl_addrmodule(dwfl_.get(), address);
    if (module == nullptr) return {.offset = address + after};
    StackFrame frame;
    frame.module = file_part(::dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    GElf_Off offset = 0;
    GElf_Sym symbol{};
    const char* function = ::dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr);
    GElf_Addr bias = 0;
    if (function != nullptr) {
      frame.function = demangled(function);
      frame.offset = offset + after;
    } else {
      ::dwfl_module_getelf(module, &bias);
      frame.offset = address + after - bias;
    }
    return frame;
  }

  struct End {
    void operator()(Dwfl* dwfl) const { ::dwfl_end(dwfl); }
  };

  pid_t pid_;
  TimePoint deadline_;
  Dwfl_Callbacks callbacks_{};
  std::unique_ptr<Dwfl, End> dwfl_;
  std::map<Dwarf_Addr, StackFrame> names_;
  std::vector<StackFrame> frames_;
};

std::string first_line_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  std::getline(in, line);
  return line;
}

// Returns the main thread, then the other threads in the order they started.
std::vector<pid_t> thread_ids(pid_t pid) {
  std::vector<pid_t> threads;
  std::error_code problem;
  for (fs::directory_iterator each(fs::path("/proc") / std::to_string(pid) / "task", problem), end;
       !problem && each != end; each.increment(problem)) {
    threads.push_back(std::atoi(each->path().filename().c_str()));
  }
  std::sort(threads.begin(), threads.end(),
            [&](pid_t a, pid_t b) { return std::pair(a != pid, a) < std::pair(b != pid, b); });
  return threads;
}

std::string problem_of(const ThreadStack& thread, const std::optional<flight::ProcessState>& state) {
  if (thread.state != 'D') return "it did not stop";
  const std::string place = state && !state->waits_in.empty() ? " in " + state->waits_in : "";
  return "it cannot be interrupted" + place;
}

ThreadStack read_thread(Unwinder& unwinder, pid_t pid, pid_t id, int& refusal) {
  const fs::path task = fs::path("/proc") / std::to_string(pid) / "task";
  ThreadStack thread{.thread = id, .name = first_line_of(task / std::to_string(id) / "comm")};
  const auto state = read_process(id, task);
  if (state) thread.state = state->state;
  const TimePoint end = unwinder.deadline();
  const bool is_stuck = thread.state == 'D';
  const TracedThread held(id, is_stuck ? std::min(end, SystemClock::instance().now() + kStopTime) : end);
  refusal = held.refusal();
  if (held.is_stopped()) {
    thread.frames = unwinder.frames_of(id);
    if (thread.frames.empty()) thread.problem = "its registers could not be read";
  } else {
    thread.problem = problem_of(thread, state);
  }
  return thread;
}

void read_all(const std::shared_ptr<Reading>& reading, pid_t pid, TimePoint deadline) {
  Unwinder unwinder(pid, deadline);
  const int problem = unwinder.open();
  std::error_code unknown;
  const std::string program =
      fs::read_symlink(fs::path("/proc") / std::to_string(pid) / "exe", unknown).filename().string();
  {
    const std::lock_guard lock(reading->mutex);
    reading->stacks.program = program;
    reading->stacks.refusal = problem;
  }
  if (problem != 0) return;
  for (const pid_t id : thread_ids(pid)) {
    if (SystemClock::instance().now() >= deadline) return;
    int refusal = 0;
    ThreadStack thread = read_thread(unwinder, pid, id, refusal);
    const std::lock_guard lock(reading->mutex);
    if (refusal != 0 && id == pid) {
      reading->stacks.refusal = refusal;
      return;
    }
    reading->stacks.threads.push_back(std::move(thread));
  }
  const std::lock_guard lock(reading->mutex);
  reading->stacks.is_cut = false;
}

void run_reading(const std::shared_ptr<Reading>& reading, pid_t pid, TimePoint deadline) noexcept {
  try {
    read_all(reading, pid, deadline);
  } catch (const std::exception&) {
    // The stacks read so far are kept.
  }
  const std::lock_guard lock(reading->mutex);
  reading->is_done = true;
  reading->has_ended.notify_all();
}

}  // namespace

ProcessStacks read_stacks(pid_t pid, std::chrono::milliseconds limit) {
  auto reading = std::make_shared<Reading>();
  reading->stacks.pid = pid;
  reading->stacks.is_cut = true;
  const TimePoint deadline = SystemClock::instance().now() + limit;
  try {
    start_thread("that reads stacks", [reading, pid, deadline] { run_reading(reading, pid, deadline); }).detach();
  } catch (const Error&) {
    return {.pid = pid, .refusal = EAGAIN};
  }
  std::unique_lock lock(reading->mutex);
  reading->has_ended.wait_until(lock, deadline, [&] { return reading->is_done; });
  ProcessStacks stacks = reading->stacks;
  if (stacks.refusal != 0) stacks.is_cut = false;
  return stacks;
}

}  // namespace lockstep::launch
