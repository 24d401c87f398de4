// SPDX-License-Identifier: Apache-2.0
// One worker process on the agent's side: the sockets and pipes to its stub and to itself.
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

/// The size for a worker's terminal: ours less the columns of the prefix. False if `terminal` is no terminal.
[[nodiscard]] bool read_size(int terminal, int prefix_columns, winsize& size) noexcept;

/// The channel for a worker's output.
enum class Channel { kPipe, kTerminal };

struct WorkerSpec {
  int rank = 0;
  std::string path;                    ///< path of the program, as found
  std::vector<std::string> arguments;  ///< [0] as typed
  std::vector<std::string> environment;
  bool is_standby = false;  ///< it waits until take_over()
  int input = -1;           ///< becomes its stdin; -1: /dev/null
  Channel output = Channel::kPipe;
  Channel errors = Channel::kPipe;
  int prefix_columns = 0;  ///< a terminal of the worker is so much narrower than ours
  std::chrono::milliseconds leftover_grace{2000};
};

class Worker {
 public:
  /// Forks the stub, which starts the program. Throws: ResourceError if the system has no more processes or
  /// descriptors.
  explicit Worker(const WorkerSpec& spec);
  /// Kills what is left.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int control() const noexcept { return control_.get(); }
  [[nodiscard]] int output(int stream) const noexcept { return streams_[stream].get(); }  ///< 0 stdout, 1 stderr
  void close_output(int stream) noexcept { streams_[stream].reset(); }

  /// The stub's next report; none if it has none now. After the stub's end is_gone().
  std::optional<StubReport> read_report();
  [[nodiscard]] bool is_gone() const noexcept { return !control_.valid(); }

  /// Makes a standby a worker of this rank and environment. False if the standby does not take them, as one that is
  /// stopped: then it is of no use. Nothing waits for it longer than half a second.
  [[nodiscard]] bool take_over(int rank, const std::vector<std::string>& environment) noexcept;

  void order(int signal, std::chrono::milliseconds grace) const noexcept;
  /// The stub left without a report (it was killed): forgets it.
  void abandon() noexcept;

 private:
  void reap(std::chrono::milliseconds patience) const noexcept;

  int rank_;
  pid_t stub_ = -1;
  UniqueFd control_;
  UniqueFd standby_;  // the pipe with a standby's environment
  UniqueFd streams_[2];
};

}  // namespace lockstep::launch
