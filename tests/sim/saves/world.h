// SPDX-License-Identifier: Apache-2.0
// Ranks that save checkpoints of one run with the production writer, on a disk that is simulated, in rounds that end as
// its faults have it; and what must hold at each change of the disk.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/disk.h"
#include "sim/kernel.h"
#include "sim/saves/plan.h"

namespace lockstep::sim::saves {

inline constexpr const char* kRun = "/disk/runs/own";
inline constexpr const char* kCheckpoints = "/disk/runs/own/checkpoints";

/// What became of a world. Fits into memory that two processes share.
struct Result {
  bool is_done = false;
  bool has_failed = false;
  std::uint64_t digest = 0;
  std::uint64_t steps = 0;
  std::uint64_t saves = 0;   ///< that were reported
  std::uint64_t images = 0;  ///< of the disk after a power cut, looked at
  Nanos lasted = 0;
  int rounds = 0;
  std::array<std::uint32_t, static_cast<std::size_t>(Fault::Kind::kCount)> faults{};  ///< that occurred
  bool is_contested = false;
  std::uint64_t calls_failed = 0;  ///< on the disk
  char violation[512] = {};
  bool is_full = false;  ///< asked for: the whole story
  char story[1 << 20] = {};
};

/// A rank as the world sees it.
struct Rank {
  Process* process = nullptr;
  int rank = 0;
  int world_size = 1;
  int round = 0;
  bool gives_up = false;  ///< its group has failed
  bool has_ended = false;
  std::uint64_t failures_before = 0;  ///< calls on the disk that had failed when it, or its save, began
};

/// What lies in a step folder.
struct Found {
  std::string problem;  ///< "": it is whole
  std::int64_t step = 0;
  std::int64_t round = 0;  ///< that has saved it, where the bytes say so
};

class World {
 public:
  World(const Plan& plan, Result& result);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void run();
  [[nodiscard]] const Plan& plan() const { return plan_; }

  // What ranks say.
  void is_clean(const Rank& rank);
  void starts_from(const Rank& rank, std::int64_t step);
  void has_loaded(std::int64_t step, std::int64_t value, std::int64_t other);
  void ends_with(std::int64_t step);
  void begins_save(Rank& rank);
  void has_saved(const Rank& rank, std::int64_t step);
  /// The value of each element of the state that a round saves of a step.
  [[nodiscard]] std::int64_t value_of(std::int64_t step, int round) const;

  void require(bool holds, const std::string& what);
  void tell(const std::string& who, const std::string& what);

 private:
  void finish();
  void serve_store();
  void start_round();
  void start_round_in(Nanos time);
  void start_rank(int rank, int world_size);
  void inspect();
  void rank_ended(Rank& rank, int status);
  void fail_round(Nanos until_kill);
  void stop_ranks(int round);
  void apply(const Fault& fault);
  void trouble_disk(const Fault& fault, bool begins);
  void cut_power();
  void kill(int rank);
  void freeze(Host& host, Nanos lasts);
  void thaw(Host& host);
  void strike();
  [[nodiscard]] std::uint64_t failures() const;

  // checks.cpp
  /// A rank 0 of an old round still works in the folder, on a file system whose locks do not keep it away.
  [[nodiscard]] bool is_contested();
  void check_change(const std::string& from, const std::string& to);
  /// The whole step folders of a disk, by step. Of an image that a power cut has left: also those that the next start
  /// puts back.
  std::map<std::int64_t, Found> check_disk(const Disk& disk, bool is_image);
  const Found& look_at(const Disk& disk, int folder, const std::string& name);
  void check_image();
  void check_retention(const Rank& rank);

  const Plan plan_;
  Result& result_;
  Kernel machine_;
  Disk disk_;
  std::deque<Rank> ranks_;
  Process* store_ = nullptr;
  int round_ = -1;
  int begun_ = -1;  ///< the newest round whose rank 0 has the run's folder
  bool has_round_failed_ = false;
  bool will_start_ = false;
  bool is_job_done_ = false;
  bool is_over_ = false;
  int calls_until_ = -1;  ///< the fault in a save
  Fault in_save_;
  Host* caller_ = nullptr;      ///< whose call it was
  Host* until_save_ = nullptr;  ///< is paused until another round saves
  bool is_contested_ = false;
  std::optional<std::int64_t> saved_;  ///< the newest step that was reported as saved
  std::size_t whole_before_ = 0;
  std::map<std::string, Found> looked_at_;
  std::vector<std::string> story_;
};

/// The world that runs in this process.
World& world();

/// What a rank does. Returns its exit code.
int run_rank(Rank& self);
/// What a person does after the job: a start, and a look at the newest.
void look_after(const Rank& self);

}  // namespace lockstep::sim::saves
