// SPDX-License-Identifier: Apache-2.0
// A world of saves: ranks save checkpoints of one run with the production writer to a simulated disk, in rounds that
// are ended by faults. Invariants are checked on each change to the disk.
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

/// The result of a world. It fits into memory shared by two processes.
struct Result {
  bool is_done = false;
  bool has_failed = false;
  std::uint64_t digest = 0;
  std::uint64_t steps = 0;
  std::uint64_t saves = 0;   ///< saves that were reported
  std::uint64_t images = 0;  ///< disk images checked after a power cut
  Nanos lasted = 0;
  int rounds = 0;
  std::array<std::uint32_t, static_cast<std::size_t>(Fault::Kind::kCount)> faults{};  ///< number of faults, by kind
  bool is_contested = false;
  std::uint64_t calls_failed = 0;  ///< failed disk calls
  char violation[512] = {};
  bool is_full = false;  ///< true if the whole history is requested
  char story[1 << 20] = {};
};

/// A rank, as the world sees it.
struct Rank {
  Process* process = nullptr;
  int rank = 0;
  int world_size = 1;
  int round = 0;
  bool gives_up = false;  ///< true if its group has failed
  bool has_ended = false;
  std::uint64_t failures_before = 0;  ///< number of failed disk calls when it, or its save, began
};

/// The contents of a step folder.
struct Found {
  std::string problem;  ///< empty if the folder is complete
  std::int64_t step = 0;
  std::int64_t round = 0;  ///< the round that saved it, if known from its bytes
};

class World {
 public:
  World(const Plan& plan, Result& result);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void run();
  [[nodiscard]] const Plan& plan() const { return plan_; }

  // Reports from the ranks.
  void is_clean(const Rank& rank);
  void starts_from(const Rank& rank, std::int64_t step);
  void has_loaded(std::int64_t step, std::int64_t value, std::int64_t other);
  void ends_with(std::int64_t step);
  void begins_save(Rank& rank);
  void has_saved(const Rank& rank, std::int64_t step);
  /// Returns the value of each element in the state that `round` saves at `step`.
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
  /// Returns true if rank 0 of an old round is still working in the folder and locks do not keep it out.
  [[nodiscard]] bool is_contested();
  void check_change(const std::string& from, const std::string& to);
  /// Returns the complete step folders on a disk, by step. For an image after a power cut, this includes the folders
  /// that the next start will restore.
  std::map<std::int64_t, Found> check_disk(const Disk& disk, bool is_image);
  const Found& look_at(const Disk& disk, int folder, const std::string& name);
  void check_image();
  void check_retention(const Rank& rank, std::int64_t saved);

  const Plan plan_;
  Result& result_;
  Kernel machine_;
  Disk disk_;
  std::deque<Rank> ranks_;
  Process* store_ = nullptr;
  int round_ = -1;
  int begun_ = -1;  ///< the newest round whose rank 0 holds the run folder
  bool has_round_failed_ = false;
  bool will_start_ = false;
  bool is_job_done_ = false;
  bool is_over_ = false;
  int calls_until_ = -1;  ///< calls left until the fault in a save
  Fault in_save_;
  Host* caller_ = nullptr;      ///< the host making that call
  Host* until_save_ = nullptr;  ///< a host that is paused until another round saves
  bool is_contested_ = false;
  std::optional<std::int64_t> saved_;  ///< the newest step reported as saved
  std::size_t whole_before_ = 0;
  std::map<std::string, Found> looked_at_;
  std::vector<std::string> story_;
};

/// The world running in this process.
World& world();

/// Runs a rank. Returns its exit code.
int run_rank(Rank& self);
/// Inspects the run after the job, as a person would: starts once and loads the newest checkpoint.
void look_after(const Rank& self);

}  // namespace lockstep::sim::saves
