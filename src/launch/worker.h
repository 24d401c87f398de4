// SPDX-License-Identifier: Apache-2.0
// The agent's side of one worker process, with the sockets and pipes to it and to its stub.
#pragma once

#include <sys/ioctl.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launch/stub.h"
#include "lockstep/base/file_system.h"

namespace lockstep::launch {

/// Sets `size` to the size of a worker's terminal: that of `terminal`, minus the columns of the prefix. Returns false
/// if `terminal` is not a terminal.
[[nodiscard]] bool read_size(int terminal, int prefix_columns, winsize& size) noexcept;

/// The channel for a worker's output.
enum class Channel { kPipe, kTerminal };

struct WorkerSpec {
  int rank = 0;
  std::string path;                    ///< path of the program
  std::vector<std::string> arguments;  ///< arguments; [0] is the name as typed
  std::vector<std::string> environment;
  bool is_standby = false;  ///< the worker waits until take_over()
  int input = -1;           ///< descriptor that becomes its stdin; -1 means /dev/null
  Channel output = Channel::kPipe;
  Channel errors = Channel::kPipe;
  int prefix_columns = 0;  ///< how many columns narrower the worker's terminal is than ours
  std::chrono::milliseconds leftover_grace{2000};
};

class Worker {
 public:
  /// Forks the stub, which starts the program. Throws: ResourceError if processes or descriptors are exhausted.
  explicit Worker(const WorkerSpec& spec);
  /// Kills the remaining processes.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int control() const noexcept { return control_.get(); }
  [[nodiscard]] int output(int stream) const noexcept { return streams_[stream].get(); }  ///< 0: stdout, 1: stderr
  void close_output(int stream) noexcept { streams_[stream].reset(); }

  /// Returns the stub's next report; none if it has not sent one yet. After the stub has ended, is_gone() is true.
  std::optional<StubReport> read_report();
  [[nodiscard]] bool is_gone() const noexcept { return !control_.valid(); }

  /// Turns a standby into a worker with this rank and environment. Returns false if the standby does not read them
  /// within half a second, for example because it is stopped; it is then unusable.
  [[nodiscard]] bool take_over(int rank, const std::vector<std::string>& environment) noexcept;

  void order(int signal, std::chrono::milliseconds grace) const noexcept;
  /// Forgets a stub that was killed and left without reporting.
  void abandon() noexcept;

 private:
  void reap(std::chrono::milliseconds patience) const noexcept;

  int rank_;
  pid_t stub_ = -1;
  UniqueFd control_;
  UniqueFd standby_;  // pipe for a standby's environment
  UniqueFd streams_[2];
};

}  // namespace lockstep::launch
