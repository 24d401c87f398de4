// SPDX-License-Identifier: Apache-2.0
// The output of a group's workers: it goes into their logs, and line by line onto the agent's console.
#pragma once

#include <cstdint>
#include <string_view>

#include "launch/output/console.h"
#include "launch/output/log_folder.h"
#include "launch/worker.h"
#include "lockstep/base/clock.h"

namespace lockstep::launch {

/// Owned by the agent's thread. Nothing here blocks.
class GroupOutput {
 public:
  /// `first_rank`: the rank of local rank 0. Lifetime: `options` outlives it.
  GroupOutput(const AgentOptions& options, int first_rank);

  /// Rank 0 gets a terminal if the agent has one, so that it draws its progress bar.
  [[nodiscard]] Channel channel_of(int rank, int stream) const;
  /// Columns of "[0]: ", the prefix of every line of rank 0, the one rank that has a terminal.
  [[nodiscard]] int prefix_columns() const;

  [[nodiscard]] Console& console() { return console_; }
  [[nodiscard]] const Console& console() const { return console_; }

  /// Takes output of `worker` from `stream` (0: stdout, 1: stderr): one piece of it, or all there is.
  void read(Worker& worker, RankLog& log, int stream, bool to_the_end);
  /// Takes the rest of both streams, to which no process writes any more, and closes them.
  void close(Worker& worker, RankLog& log);
  /// Waits a moment for output: with two terminals, bytes written to the first may arrive after later bytes of the
  /// second, since the kernel passes each on in its own thread.
  [[nodiscard]] bool more_errors_arrive(const Worker& worker) const;
  /// The agent's terminal has another size.
  void resize(const Worker& worker) const;

  /// When an unfinished line is shown as it is; max(): never.
  [[nodiscard]] TimePoint idle_at() const;
  void on_time(TimePoint now);

  /// Counts the workers' output. A reader of ours that does not read blocks the workers, which counts too.
  [[nodiscard]] std::uint64_t count() { return console_.is_full() ? ++count_ : count_; }

 private:
  const AgentOptions& options_;
  const int first_rank_;
  Console console_;
  MuxOptions mux_options_;
  LineMux mux_;
  TimePoint last_output_{};
  std::uint64_t count_ = 0;
};

}  // namespace lockstep::launch
