// SPDX-License-Identifier: Apache-2.0
// The invariants of a world.
#include <fmt/format.h>

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "lockstep/base/error.h"
#include "sim/files.h"
#include "sim/world.h"

namespace lockstep::sim {

namespace fs = std::filesystem;

// An agent's resource limits. The agent of node 0 serves the other agents and all ranks, so the limits grow with both.
constexpr std::int64_t kHeapOfAgent = 384 << 10;
constexpr std::int64_t kHeapOfNode = 16 << 10;
constexpr std::int64_t kHeapOfRank = 2 << 10;
constexpr std::int64_t kHeapOfTwoNodes = 320;  // for each pair: an order to one names the other
constexpr std::int64_t kDescriptorsOfAgent = 40;
constexpr std::int64_t kDescriptorsOfNode = 8;
constexpr std::int64_t kDescriptorsOfRank = 4;
constexpr std::int64_t kThreadsOfAgent = 10;

// At most one round runs among nodes that can reach each other.
void World::check_start(const Rank& rank) {
  // The ranks of one coordinator never meet the ranks of another.
  const bool is_old = rank.served_by == newest_.first && rank.round < newest_.second;
  require(!is_old || is_touched(rank.process->host->name, -1), "a rank of an old round starts");
  require(rank.round < plan_.most_rounds(), fmt::format("round {} is one too many", rank.round));
  require(rank.rank >= 0 && rank.rank < rank.world_size, "a rank has no place in its world");
  const int nodes = std::atoi(rank.process->environment.at("GROUP_WORLD_SIZE").c_str());
  require(nodes >= plan_.min_nodes && nodes <= plan_.max_nodes,
          fmt::format("round {} has {} nodes", rank.round, nodes));
  for (const Rank& other : ranks_) {
    if (&other == &rank || other.has_ended) continue;
    if (other.round == rank.round && other.served_by == rank.served_by) {
      require(other.rank != rank.rank, fmt::format("two processes are rank {} of round {}", rank.rank, rank.round));
      require(other.world_size == rank.world_size, "two ranks of a round have another world size");
      continue;
    }
    // A coordinator does not know about ranks started by another coordinator, or on nodes that it cannot hear.
    const bool is_known = other.served_by == rank.served_by && !is_touched(other.process->host->name, -1) &&
                          !is_touched(rank.process->host->name, -1);
    const bool is_heard = other.process->host == rank.process->host || is_known;
    require(!is_heard,
            fmt::format("round {} begins while rank {} of round {} still runs", rank.round, other.rank, other.round));
  }
}

// An error that would recur counts as soon as its rank has reported it, even if the rank's node is lost later.
void World::check_claims(const Rank& rank) {
  for (const RoundOf& claim : claims_) {
    if (claim.first != rank.served_by || claim.second >= rank.round) continue;
    const auto by = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& other) {
      return RoundOf(other.served_by, other.round) == claim && other.fails_with == static_cast<int>(ExitCode::kData);
    });
    const auto is_elsewhere = [&](const Touched& one) { return one.rank < 0 && one.host != by->process->host->name; };
    const bool is_certain = std::none_of(touched_.begin(), touched_.end(), is_elsewhere);
    require(!is_certain,
            fmt::format("round {} begins after an error of round {} that would come again", rank.round, claim.second));
  }
}

// The bound is generous: ranks on other nodes may notice the loss of a node much later than the launchers do.
void World::expect_stop(int node) {
  const Process* agent = agents_[static_cast<std::size_t>(node)].process;
  std::set<RoundOf> rounds;
  for (const Rank& rank : ranks_) {
    if (rank.agent == agent && !rank.has_ended) rounds.insert({rank.served_by, rank.round});
  }
  for (const RoundOf& round : rounds) {
    machine_.at(machine_.now() + 3 * plan_.silence() + 3 * kSecond, [this, round, node] { check_stop(round, node); });
  }
}

void World::check_stop(const RoundOf& round, int lost_node) {
  if (lost_node != 0 && is_touched("node0", -1)) return;
  for (const Rank& rank : ranks_) {
    if (RoundOf(rank.served_by, rank.round) != round || rank.has_ended || rank.is_told_to_leave) continue;
    require(is_touched(rank.process->host->name, -1),
            fmt::format("rank {} still trains, long after node {} was lost", rank.rank, lost_node));
  }
}

// A restarted coordinator learns from the other nodes which round the job has reached.
void World::check_history(const Rank& rank) {
  const auto is_of_it = [&](const std::pair<int, int>& round) { return round.first == rank.served_by; };
  const bool is_first = std::count_if(rounds_.begin(), rounds_.end(), is_of_it) == 0 ||
                        (std::count_if(rounds_.begin(), rounds_.end(), is_of_it) == 1 &&
                         rounds_.count({rank.served_by, rank.round}) == 1);
  for (const Rank& other : ranks_) {
    const bool is_before = other.agent == rank.agent && other.served_by != rank.served_by;
    require(!is_first || !is_before || other.round < rank.round,
            fmt::format("a new coordinator begins round {} with a node that was in round {}", rank.round, other.round));
  }
}

void World::check_agent_end(int node, Process& process) {
  for (const Rank& rank : ranks_) {
    require(rank.agent != &process || rank.has_ended, fmt::format("agent {} ends before its rank {}", node, rank.rank));
  }
  const auto is_left = [&](const auto& fiber) {
    return fiber.get() != machine_.current() && fiber->state != Fiber::State::kDone;
  };
  require(std::none_of(process.fibers.begin(), process.fibers.end(), is_left),
          fmt::format("agent {} ends before a thread of it", node));
  require(files().count_of(process) == 0,
          fmt::format("agent {} leaves {} descriptors open", node, files().count_of(process)));
}

Use limit_of(const Plan& plan) {
  const std::int64_t ranks = std::accumulate(plan.ranks.begin(), plan.ranks.end(), std::int64_t{0});
  return {.heap = kHeapOfAgent + plan.nodes * (kHeapOfNode + plan.nodes * kHeapOfTwoNodes) + ranks * kHeapOfRank,
          .descriptors = kDescriptorsOfAgent + plan.nodes * kDescriptorsOfNode + ranks * kDescriptorsOfRank,
          .threads = kThreadsOfAgent};
}

void World::check_use(const Process& process) {
  require(false, fmt::format("{} has {} KiB, {} descriptors and {} threads", process.name, process.use.heap >> 10,
                             process.use.descriptors, process.use.threads));
}

bool World::is_touched(const std::string& host, int rank) const {
  return std::any_of(touched_.begin(), touched_.end(), [&](const Touched& one) {
    const bool is_host = one.host == host || (host == "10.0.0.1" && one.host == "node0");
    return is_host && (one.rank < 0 || rank < 0 || one.rank == rank);
  });
}

// Returns false for faults after which the kernel closes the connections at once, and for those that do not affect the
// agents.
static bool silences_node(const Fault& fault) {
  using Kind = Fault::Kind;
  return fault.kind != Kind::kKillAgent && fault.kind != Kind::kTellToLeave && fault.kind != Kind::kStartAgent &&
         fault.kind != Kind::kRefuseCalls && fault.kind != Kind::kJumpClock && !is_of_rank(fault.kind);
}

// A verdict names a rank or node affected by a fault, and calls a node silent only if a fault can silence it.
void World::check_blame() {
  for (const auto& entry : fs::recursive_directory_iterator("logs")) {
    if (entry.path().filename() != "verdict.json") continue;
    std::ifstream file(entry.path());
    const auto verdict = nlohmann::json::parse(file, nullptr, false);
    require(!verdict.is_discarded(), "a verdict is torn");
    const std::string host = verdict.value("host", "");
    const int rank = verdict.value("rank", -1);
    const std::string text = verdict.value("text", "");
    tell("verdict", fmt::format("{}: {} (rank {} on {}): {}", entry.path().string(), verdict.value("cause", ""), rank,
                                host, text));
    // These ranks have no flight rings, so the late rank is unknown: the verdict names the rank that noticed.
    const bool is_late = verdict.value("cause", "") == "timeout" || text.find("TimeoutError") != std::string::npos;
    const bool is_silent = text.find("it reported nothing") != std::string::npos;
    require(!is_silent || std::any_of(plan_.faults.begin(), plan_.faults.end(), silences_node),
            host + " is called silent, and its agent was killed");
    if (host.empty() || is_late) continue;
    require(is_touched(host, rank), fmt::format("rank {} on {} is blamed, which no fault has touched", rank, host));
  }
}

// An agent that no fault has ended, and whose ranks took part in a round, exits with the job's exit code.
void World::check_codes() {
  const int broken = plan_.must_end_with();
  for (int node = 0; node < plan_.nodes; ++node) {
    const Agent& agent = agents_[static_cast<std::size_t>(node)];
    const auto is_its = [&](const Rank& rank) { return rank.agent == agent.process; };
    const bool has_taken_part = agent.starts == 1 && std::any_of(ranks_.begin(), ranks_.end(), is_its);
    if (!has_taken_part || !WIFEXITED(agent.status)) continue;
    const int code = WEXITSTATUS(agent.status);
    const bool was_told = code == 128 + SIGTERM;
    if (plan_.must_succeed() && !was_told) {
      require(code == 0, fmt::format("agent {} ends with exit code {}, not with the job's success", node, code));
    }
    if (has_broken_ && broken >= 0 && rounds_.size() > 0) {
      require(code == broken, fmt::format("agent {} ends with exit code {}, and the job with {}", node, code, broken));
      require(rounds_.size() <= joins(), "an error that would come again was started again");
    }
  }
}

// Returns the maximum number of rounds that may begin because a node joins or has no work.
std::size_t World::joins() const {
  const auto is_late = [](Nanos start) { return start > 2 * kSecond && start != kNever; };
  return 1 + (plan_.is_range()
                  ? static_cast<std::size_t>(std::count_if(plan_.starts.begin(), plan_.starts.end(), is_late)) +
                        plan_.starts.size() + plan_.faults.size()
                  : 0);
}

void World::check_end() {
  if (!is_over()) {
    std::string who;
    for (const Agent& agent : agents_) {
      if (agent.is_running) who += agent.process->name + " ";
    }
    require(false, fmt::format("the job has not ended {:.0f} s after the last fault: {}",
                               static_cast<double>(plan_.end_by() - plan_.quiet_from()) * 1e-9, who));
  }
  const bool is_complete = !checkpoints_.empty() && checkpoints_.back().first == plan_.steps;
  const bool says_so = std::any_of(agents_.begin(), agents_.end(), [](const Agent& a) { return a.status == 0; });
  require(!says_so || is_complete, "an agent ends with success before the last step is committed");
  if (plan_.must_succeed()) {
    require(is_complete, "the job must reach its last step");
    require(agents_[0].status == 0, "the job must end with success");
  }
  check_codes();
  if (plan_.faults.empty() && !plan_.is_range()) require(rounds_.size() == 1, "a job without a fault needs one round");
  check_blame();
  result_.has_succeeded = says_so;
}

}  // namespace lockstep::sim
