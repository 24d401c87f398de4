// SPDX-License-Identifier: Apache-2.0
// A cluster in one process: the agents, coordinator, store and ranks of one job, on a machine with simulated time,
// network, processes and threads. Invariants are checked on each event.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel.h"
#include "sim/network.h"
#include "sim/plan.h"
#include "sim/ranks.h"

namespace lockstep::sim {

/// The result of a world. It fits into memory shared by two processes.
struct Result {
  bool is_done = false;  ///< true if the world ran to completion
  bool has_failed = false;
  std::uint64_t digest = 0;
  std::uint64_t steps = 0;
  Nanos lasted = 0;
  int rounds = 0;
  bool has_succeeded = false;                                                         ///< the job reached its last step
  std::array<std::uint32_t, static_cast<std::size_t>(Fault::Kind::kCount)> faults{};  ///< number of faults, by kind
  NetworkCounts network{};
  Use most = {};        ///< peak usage of any agent
  Use most_share = {};  ///< the same, as a percentage of its limits
  char violation[512] = {};
  bool is_full = false;  ///< true if the whole history is requested, not only its last lines
  char story[1 << 20] = {};
};

class World {
 public:
  World(const Plan& plan, Result& result);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Runs the world to completion and fills in the result.
  void run();

  [[nodiscard]] const Plan& plan() const { return plan_; }

  // Reports from the ranks.
  Rank& add_rank(Rank rank);
  /// Returns the process whose coordinator began the agent's round, given the round's keys.
  [[nodiscard]] int begun_by(const Process& agent, const std::string& keys);
  void rank_ended(Rank& rank, int status);
  /// Returns the newest checkpoint: its step and state.
  std::pair<std::int64_t, std::uint64_t> load(const Rank& rank);
  void commit(const Rank& rank, std::int64_t step, std::uint64_t state);
  /// Records that a rank is the first in its round to publish its error. `is_final`: the error would recur.
  void claimed(const Rank& rank, bool is_final);
  /// Returns true if a fault has affected a node rather than only ranks.
  [[nodiscard]] bool has_touched_node() const;

  /// If `holds` is false, ends the world as failed and reports `what`.
  void require(bool holds, const std::string& what);
  /// Adds a line to the history.
  void tell(const std::string& who, const std::string& what);

 private:
  struct Agent {
    Process* process = nullptr;  ///< the agent's newest process
    bool is_running = false;
    int status = -1;
    int starts = 0;
    std::vector<std::string> words = {};  ///< its last lines of output
  };
  /// A host or one of its ranks that a fault has affected.
  struct Touched {
    std::string host;
    int rank = -1;  ///< -1: any
  };

  void finish();
  void make_hosts();
  void start_agent(int node);
  int run_agent_of(int node);
  void apply(const Fault& fault);
  void end_of(const Fault& fault);
  void touch(int node, int rank = -1);
  void cut(int from, int to, bool on);
  void refuse_calls(const Fault& fault, bool on);
  void power_off(int node);
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool is_agent(const Process& process) const;
  [[nodiscard]] Rank* rank_on(int node, int local_rank);

  using RoundOf = std::pair<int, int>;  ///< the process whose coordinator began the round, and the round number

  void check_start(const Rank& rank);
  void check_claims(const Rank& rank);
  void expect_stop(int node);
  void check_stop(const RoundOf& round, int lost_node);
  void check_agent_end(int node, Process& process);
  void check_history(const Rank& rank);
  void check_end();
  void check_codes();
  void check_use(const Process& process);
  [[nodiscard]] std::size_t joins() const;
  void check_blame();
  [[nodiscard]] bool is_touched(const std::string& host, int rank) const;

  const Plan plan_;
  Result& result_;
  Kernel machine_;
  std::deque<Rank> ranks_;
  std::vector<Agent> agents_;
  int starts_to_come_ = 0;
  std::vector<Touched> touched_;
  std::vector<std::pair<std::int64_t, std::uint64_t>> checkpoints_;
  std::vector<std::uint64_t> expected_;  ///< the state after each step
  RoundOf newest_{-1, -1};
  std::set<RoundOf> rounds_;
  bool has_error_ = false;    ///< true if a rank has published its error
  std::set<RoundOf> claims_;  ///< rounds in which a rank published its error before a fault affected any node
  bool has_broken_ = false;   ///< true if a rank has ended with an error that would recur
  std::vector<std::string> story_;
};

/// Returns the limits of an agent in a world with this plan.
[[nodiscard]] Use limit_of(const Plan& plan);

/// The world running in this process.
World& world();

}  // namespace lockstep::sim
