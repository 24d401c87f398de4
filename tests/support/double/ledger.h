// SPDX-License-Identifier: Apache-2.0
// Who may touch which memory when. Each stream has a vector clock; each operation notes what it reads and writes. Two
// operations of which one writes need an event, or a wait of the host, between them: where there is none, that is found
// however lucky their times were.
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

/// How far of each stream something is known to have come.
class Clock {
 public:
  [[nodiscard]] std::uint64_t at(int stream) const;
  void set(int stream, std::uint64_t tick);
  void join(const Clock& other);

 private:
  std::vector<std::uint64_t> ticks_;
};

/// One for the process. Thread-safe: yes. Streams are numbers from 0 on.
class Ledger {
 public:
  static Ledger& instance();

  int add_stream(std::string name);
  void run(int stream, const std::string& name, const std::vector<Access>& accesses);
  /// Returns what an event that is recorded now says.
  [[nodiscard]] Clock record(int stream);
  void hold(int stream, const Clock& clock);
  /// The calling thread has seen that it is over.
  void seen(const Clock& clock);
  /// The host has waited: all of its threads may rely on that.
  void waited(const Clock& clock);

  /// Memory belongs to the stream that it was taken for, whose later work may get it when it is given back.
  void take(const void* begin, std::size_t bytes, int stream);
  void give_back(const void* begin);
  /// Reports memory that nobody has: what a graph uses has to stay. Returns: false where there is such.
  [[nodiscard]] bool has_taken(const std::string& name, const std::vector<Access>& accesses);
  /// Tensor::record_stream: memory is kept until the stream's work so far is over.
  void record_stream(const void* begin, int stream);

  /// The most bytes that were taken at one time, on all GPUs of the process.
  [[nodiscard]] std::int64_t peak();
  void restart_peak();

  /// What was found since the last call, one line each. Each is printed to standard error, too.
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
