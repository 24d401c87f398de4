// SPDX-License-Identifier: Apache-2.0
// The machine under a simulated cluster: hosts, processes and threads that run one at a time, on virtual time. Which
// thread runs next is drawn from a seed. The calls of calls.cpp, threads.cpp and clocks.cpp reach it from production
// code.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "sim/memory.h"

namespace lockstep::sim {

/// Virtual nanoseconds since the world began.
using Nanos = std::int64_t;
inline constexpr Nanos kMicro = 1'000;
inline constexpr Nanos kMilli = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kNever = INT64_MAX;

/// Draws numbers; the same ones for the same seed on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t bits() { return engine_(); }
  /// From `least` to `most`, both included.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool chance(double probability) { return static_cast<double>(bits() >> 11U) * 0x1p-53 < probability; }

 private:
  std::mt19937_64 engine_;
};

struct Host {
  int number = 0;
  std::string name;
  std::uint32_t address = 0;  ///< IPv4, in host order
  bool is_up = true;
  bool is_frozen = false;
  Nanos monotonic_offset = 0;
  Nanos wall_offset = 0;
  double drift = 0;  ///< of its clocks, as a part of time
  std::uint16_t next_port = 40'000;

  [[nodiscard]] Nanos monotonic(Nanos now) const {
    return monotonic_offset + now + static_cast<Nanos>(static_cast<double>(now) * drift);
  }
  [[nodiscard]] Nanos wall(Nanos now) const { return wall_offset + monotonic(now) - monotonic_offset; }
};

struct Process;

/// One simulated thread: a stack, and what the C++ runtime keeps of a thread.
struct Fiber {
  enum class State : std::uint8_t { kReady, kBlocked, kDone };
  ucontext_t context{};
  Process* process = nullptr;
  State state = State::kReady;
  std::uint64_t waits = 0;  ///< counts its waits: an old alarm wakes no newer one
  bool was_woken = false;   ///< its last wait ended before the deadline
  int mutexes = 0;          ///< that it holds
  std::function<void()> body;
  void* result = nullptr;
  Fiber* joiner = nullptr;
  int saved_errno = 0;
  std::vector<char> thread_locals;
  char exceptions[16] = {};
  void* stack = nullptr;
};

struct Process {
  int pid = 0;
  int number = 0;  ///< its pid as its own container sees it
  Host* host = nullptr;
  std::string name;
  std::map<std::string, std::string> environment;
  bool is_frozen = false;
  bool is_dead = false;
  double slowness = 0;  ///< the chance that a thread of it loses the processor for a while
  std::vector<std::unique_ptr<Fiber>> fibers;
  int served_by = -1;           ///< the process whose store it has met; -1: none yet
  std::set<std::string> drawn;  ///< the first digits of the random tokens that it has made
  Nanos second_began = 0;
  int turns = 0;     ///< of its threads, in this second
  std::string line;  ///< of its output, not ended yet
  std::function<void(int signal)> on_signal = {};
  std::function<void(int status)> on_end = {};  ///< a wait status
  std::vector<char> globals;                    ///< its own copy of production code's globals
  Use use;
  Use most;  ///< that it had at any time
  Use limit{INT64_MAX, INT64_MAX, INT64_MAX};
};

/// A world's machine. There is one at a time, in a process of its own: see world.h.
class Kernel {
 public:
  explicit Kernel(std::uint64_t seed);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Time and order.
  [[nodiscard]] Nanos now() const { return now_; }
  void pass(Nanos time) { now_ += time; }
  Dice& dice() { return dice_; }
  /// Calls `act` at `time`, on the scheduler's stack: it must not block.
  void at(Nanos time, std::function<void()> act);
  /// Runs until `is_over`, `limit`, or until nothing can happen any more.
  void run(Nanos limit, const std::function<bool()>& is_over);
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  /// Folds something that happened into the digest, which two runs of a seed share.
  void fold(std::uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001b3ULL; }
  [[nodiscard]] std::uint64_t digest() const { return digest_; }

  // Threads.
  [[nodiscard]] Fiber* current() const { return current_; }
  Fiber* start(Process& process, std::function<void()> body);
  /// The running thread waits until wake() or `deadline`. Returns false at the deadline.
  bool block(Nanos deadline);
  void wake(Fiber& fiber);
  /// The running thread lets others run before it goes on.
  void yield();
  /// As yield(), now and then.
  void maybe_yield();
  [[noreturn]] void end_fiber();

  // Processes and hosts.
  Host& add_host(const std::string& name);
  [[nodiscard]] std::vector<std::unique_ptr<Host>>& hosts() { return hosts_; }
  Process& spawn(Host& host, const std::string& name, const std::map<std::string, std::string>& environment);
  /// Ends it at once. `status` is a wait status.
  void end_process(Process& process, int status);
  [[nodiscard]] Process* find(int pid);
  [[nodiscard]] std::vector<std::unique_ptr<Process>>& processes() { return processes_; }
  void freeze(Process& process, bool on);
  /// The running process has drawn these bytes.
  void note_random(std::string_view bytes);
  static constexpr std::size_t kNotedDigits = 16;

  /// Called with each line that a process prints.
  std::function<void(Process&, const std::string&)> on_line = {};
  void print(Process& process, std::string_view text);
  /// Called where a process goes on and on without waiting for anything: it has more turns than this in a second.
  std::function<void(Process&)> on_spin = {};
  int most_turns = 20'000;
  /// Called where a process takes more than its limit.
  std::function<void(Process&)> on_excess = {};
  /// Called where production code gives up. It does not return.
  std::function<void(const std::string&)> on_wrong = {};
  /// Memory of production code that each process has for itself.
  void add_global(void* at, std::size_t size);

 private:
  struct Alarm {
    Nanos time;
    std::uint64_t number;
    std::function<void()> act;
    bool operator<(const Alarm& other) const { return time != other.time ? time > other.time : number > other.number; }
  };
  struct Global {
    void* at;
    std::size_t size;
    std::vector<char> initial;
  };

  void run_fiber(Fiber& fiber);
  void count_turn(Process& process);
  void look_at_use(Process& process);
  void leave_fiber();
  void enter(Fiber& fiber);
  void* take_stack();
  void give_back_stack(Fiber& fiber);
  void swap_globals(Process& process);
  static void trampoline();

  Nanos now_ = 0;
  Dice dice_;
  std::uint64_t steps_ = 0;
  std::uint64_t digest_ = 0xcbf29ce484222325ULL;
  std::uint64_t alarms_made_ = 0;
  std::priority_queue<Alarm> alarms_;
  std::vector<Fiber*> ready_;
  std::vector<void*> free_stacks_;
  Fiber* current_ = nullptr;
  Fiber* loaded_ = nullptr;      ///< whose thread-locals are in place
  Process* in_place_ = nullptr;  ///< whose globals are
  ucontext_t scheduler_{};
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Global> globals_;
  int next_pid_ = 1000;
};

/// The machine of this world; nullptr where none runs: calls then reach the real system.
Kernel*& kernel();

}  // namespace lockstep::sim
