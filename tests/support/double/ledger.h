// SPDX-License-Identifier: Apache-2.0
// Checks the order of accesses to memory. Each stream has a vector clock; each operation notes its reads and writes.
// Two operations, one of which writes, need an event or a host wait between them. The ledger finds a missing
// synchronisation even if the operations happened to run in the right order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "support/double/stream_handle.h"

namespace lockstep::testing::make_believe {

/// The known progress of each stream.
class Clock {
 public:
  [[nodiscard]] std::uint64_t at(int stream) const;
  void set(int stream, std::uint64_t tick);
  void join(const Clock& other);

 private:
  std::vector<std::uint64_t> ticks_;
};

/// The ledger of the process. Streams are numbered from 0. Thread-safe: yes.
class Ledger {
 public:
  static Ledger& instance();

  int add_stream(std::string name);
  void run(int stream, const std::string& name, const std::vector<Access>& accesses);
  /// Returns the progress of an event recorded now.
  [[nodiscard]] Clock record(int stream);
  void hold(int stream, const Clock& clock);
  /// Records that the calling thread has seen this progress.
  void seen(const Clock& clock);
  /// Records that the host has waited for this progress: all its threads may rely on it.
  void waited(const Clock& clock);

  /// Records that memory was allocated for a stream. After give_back(), the stream's later work may get the same
  /// memory.
  void take(const void* begin, std::size_t bytes, int stream);
  void give_back(const void* begin);
  /// Returns true if all this memory is allocated. Otherwise, reports it, because a graph's memory must not be given
  /// back.
  [[nodiscard]] bool has_taken(const std::string& name, const std::vector<Access>& accesses);
  /// Does the same as Tensor::record_stream: keeps memory until the stream's work so far is done.
  void record_stream(const void* begin, int stream);

  /// The peak number of bytes allocated, on all GPUs of the process.
  [[nodiscard]] std::int64_t peak();
  void restart_peak();

  /// The races since the last call, one line each; they are also printed to standard error.
  [[nodiscard]] std::vector<std::string> take_races();

 private:
  struct Note {
    const std::byte* begin;
    const std::byte* end;
    bool writes;
    int stream;
    std::uint64_t tick;
    std::string name;
  };
  struct Block {
    const std::byte* end = nullptr;
    int stream = 0;
    std::set<int> recorded = {};
    std::vector<Note> notes = {};
  };
  [[nodiscard]] Block* block_of(const void* address);
  void touch(Block& block, const Note& note);
  void report(const std::string& what);
  [[nodiscard]] bool is_over(const Note& note, const Clock& for_stream) const;

  std::mutex mutex_;
  std::vector<std::string> names_;
  std::vector<Clock> clocks_;
  Clock waited_;
  std::map<const std::byte*, Block> blocks_;
  std::vector<std::string> races_;
  std::int64_t taken_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace lockstep::testing::make_believe
