// SPDX-License-Identifier: Apache-2.0
// The machine under a simulated cluster: hosts, processes, and threads that run one at a time in virtual time. The seed
// decides which thread runs next. Production code reaches the machine through the calls in calls.cpp, threads.cpp and
// clocks.cpp.
#pragma once

#include <ucontext.h>

#include <csetjmp>
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

/// Draws random numbers; a seed gives the same sequence on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t bits() { return engine_(); }
  /// Returns a number from `least` to `most`, inclusive.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool chance(double probability) { return static_cast<double>(bits() >> 11U) * 0x1p-53 < probability; }

 private:
  std::mt19937_64 engine_;
};

inline constexpr std::uint16_t kFirstFreePort = 40'000;

struct Host {
  int number = 0;
  std::string name;
  std::uint32_t address = 0;  ///< IPv4, in host byte order
  bool is_up = true;
  bool is_frozen = false;
  Nanos monotonic_offset = 0;
  Nanos wall_offset = 0;
  double drift = 0;  ///< clock error, as a fraction of elapsed time
  std::uint16_t next_port = kFirstFreePort;

  [[nodiscard]] Nanos monotonic(Nanos now) const {
    return monotonic_offset + now + static_cast<Nanos>(static_cast<double>(now) * drift);
  }
  [[nodiscard]] Nanos wall(Nanos now) const { return wall_offset + monotonic(now) - monotonic_offset; }
};

struct Process;

/// A simulated thread: its stack and the C++ runtime's data for it.
struct Fiber {
  enum class State : std::uint8_t { kReady, kBlocked, kDone };
  ucontext_t context{};    ///< where its first turn begins
  std::jmp_buf place{};    ///< where its next turn continues
  bool has_begun = false;  ///< true after its first turn
  Process* process = nullptr;
  State state = State::kReady;
  std::uint64_t waits = 0;  ///< number of waits so far, used to ignore alarms of earlier waits
  bool was_woken = false;   ///< true if its last wait ended before the deadline
  int mutexes = 0;          ///< number of mutexes held
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
  int number = 0;  ///< its pid as seen in its own container
  Host* host = nullptr;
  std::string name;
  std::map<std::string, std::string> environment;
  bool is_frozen = false;
  bool is_dead = false;
  double slowness = 0;  ///< probability that one of its threads loses the processor for a while
  std::vector<std::unique_ptr<Fiber>> fibers;
  int served_by = -1;           ///< the process whose store it has connected to; -1: none yet
  std::set<std::string> drawn;  ///< the first digits of the random tokens it has generated
  Nanos second_began = 0;
  int turns = 0;     ///< turns taken by its threads in this second
  std::string line;  ///< an incomplete line of output
  std::function<void(int signal)> on_signal = {};
  std::function<void(int status)> on_end = {};  ///< receives a wait status
  std::vector<char> globals;                    ///< its own copy of the global variables of production code
  Use use;
  Use most;  ///< peak usage
  Use limit{INT64_MAX, INT64_MAX, INT64_MAX};
};

/// The machine of a world. A process has at most one at a time: see world.h.
class Kernel {
 public:
  explicit Kernel(std::uint64_t seed);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Time and ordering.
  [[nodiscard]] Nanos now() const { return now_; }
  void pass(Nanos time) { now_ += time; }
  Dice& dice() { return dice_; }
  /// Calls `act` at `time`, on the scheduler's stack: `act` must not block.
  void at(Nanos time, std::function<void()> act);
  /// Runs until `is_over` returns true, until `limit`, or until no thread is runnable.
  void run(Nanos limit, const std::function<bool()>& is_over);
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  /// Adds an event to the digest, which is the same for every run of a seed.
  void fold(std::uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001b3ULL; }
  [[nodiscard]] std::uint64_t digest() const { return digest_; }

  // Threads.
  [[nodiscard]] Fiber* current() const { return current_; }
  Fiber* start(Process& process, std::function<void()> body);
  /// Makes the running thread wait for wake() or `deadline`. Returns false at the deadline.
  bool block(Nanos deadline);
  void wake(Fiber& fiber);
  /// Lets other threads run before the running thread continues.
  void yield();
  /// Calls yield() now and then.
  void maybe_yield();
  [[noreturn]] void end_fiber();

  // Processes and hosts.
  Host& add_host(const std::string& name);
  [[nodiscard]] std::vector<std::unique_ptr<Host>>& hosts() { return hosts_; }
  Process& spawn(Host& host, const std::string& name, const std::map<std::string, std::string>& environment);
  /// Ends the process at once. `status` is a wait status.
  void end_process(Process& process, int status);
  [[nodiscard]] Process* find(int pid);
  [[nodiscard]] std::vector<std::unique_ptr<Process>>& processes() { return processes_; }
  void freeze(Process& process, bool on);
  /// Records random bytes drawn by the running process.
  void note_random(std::string_view bytes);
  static constexpr std::size_t kNotedDigits = 16;

  /// Called with each line that a process prints.
  std::function<void(Process&, const std::string&)> on_line = {};
  void print(Process& process, std::string_view text);
  /// Called if a process takes more turns per second than its limit allows: it is spinning.
  std::function<void(Process&)> on_spin = {};
  int most_turns = 20'000;
  /// Called if a process exceeds its limit on memory, descriptors or threads.
  std::function<void(Process&)> on_excess = {};
  /// Called when production code gives up. It does not return.
  std::function<void(const std::string&)> on_wrong = {};
  /// Registers memory of production code that each process has its own copy of.
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
  void switch_to(Fiber& fiber);
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
  Fiber* loaded_ = nullptr;      ///< the thread whose thread-local variables are loaded
  Process* in_place_ = nullptr;  ///< the process whose globals are loaded
  std::jmp_buf scheduler_{};
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Global> globals_;
  int next_pid_ = 1000;
};

/// This world's machine; nullptr if none is running, in which case calls reach the real system.
Kernel*& kernel();

}  // namespace lockstep::sim
