// SPDX-License-Identifier: Apache-2.0
// Writes the output of a group's workers to their logs and, line by line, to the agent's console.
#pragma once

#include <cstdint>
#include <string_view>

#include "launch/output/console.h"
#include "launch/output/log_folder.h"
#include "launch/worker.h"
#include "lockstep/base/clock.h"

namespace lockstep::launch {

/// Owned by the agent's thread. No function blocks.
class GroupOutput {
 public:
  /// `first_rank` is the rank of local rank 0. Lifetime: `options` outlives it.
  GroupOutput(const AgentOptions& options, int first_rank);

  /// Returns a stream's channel. Rank 0 gets a terminal if the agent has one, so that it can draw its progress bar.
  [[nodiscard]] Channel channel_of(int rank, int stream) const;
  /// Returns the width of "[0]: ", the prefix of the lines of rank 0, the only rank with a terminal.
  [[nodiscard]] int prefix_columns() const;

  [[nodiscard]] Console& console() { return console_; }
  [[nodiscard]] const Console& console() const { return console_; }

  /// Reads output of `worker` from `stream` (0: stdout, 1: stderr): one piece, or, with `to_the_end`, all of it.
  void read(Worker& worker, RankLog& log, int stream, bool to_the_end);
  /// Reads the rest of both streams, which no process is writing to anymore, and closes them.
  void close(Worker& worker, RankLog& log);
  /// Waits a moment for output on stderr; returns true if there was any. With two terminals, bytes written to one may
  /// arrive after later bytes written to the other, since the kernel forwards each one in a thread of its own.
  [[nodiscard]] bool more_errors_arrive(const Worker& worker) const;
  /// Passes the new size of the agent's terminal on to the worker.
  void resize(const Worker& worker) const;

  /// Returns when an unfinished line will be shown as is; max() means never.
  [[nodiscard]] TimePoint idle_at() const;
  void on_time(TimePoint now);

  /// Returns a count that grows with the workers' output, and also while a full console is blocking them.
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
