// SPDX-License-Identifier: Apache-2.0
#include "sim/world.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/launch/agent.h"
#include "sim/files.h"
#include "sim/network.h"

namespace lockstep::sim {
namespace {

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";
constexpr std::uint16_t kPort = 29'500;
constexpr std::size_t kLines = 55;
constexpr std::size_t kLineLength = 230;
constexpr int kTurnsOfARank = 200;  // per second, for the process serving all ranks

World*& instance() {
  static World* world = nullptr;
  return world;
}

void copy(char* to, std::size_t size, const std::string& text) { std::snprintf(to, size, "%s", text.c_str()); }

}  // namespace

World& world() { return *instance(); }

World::World(const Plan& plan, Result& result)
    : plan_(plan), result_(result), machine_(plan.seed * 2), agents_(static_cast<std::size_t>(plan.nodes)) {
  instance() = this;
  kernel() = &machine_;
  machine_.add_global(const_cast<AwakeClock*>(&AwakeClock::instance()), sizeof(AwakeClock));
  machine_.on_line = [this](Process& process, const std::string& line) {
    tell(process.name, line);
    const bool is_accused = line.find("did not prove that it belongs to this job") != std::string::npos;
    require(!is_accused || !touched_.empty(), "a process of the job is taken for a stranger");
  };
  on_meet = [this](Process& client, Process& server) {
    if (client.served_by >= 0 && client.served_by != server.pid && is_agent(server)) {
      network().count(NetworkEvent::kConnectedAgain);
    }
    // While its ranks are running, the agent is still in the round of the coordinator that began that round.
    const auto runs = [&](const Rank& rank) { return rank.agent == &client && !rank.has_ended; };
    if (std::none_of(ranks_.begin(), ranks_.end(), runs)) client.served_by = server.pid;
  };
  machine_.on_wrong = [this](const std::string& what) { require(false, what); };
  machine_.on_spin = [this](Process& process) { require(false, process.name + " takes a whole processor"); };
  machine_.most_turns += kTurnsOfARank * std::accumulate(plan.ranks.begin(), plan.ranks.end(), 0);
  machine_.on_excess = [this](Process& process) { check_use(process); };
  expected_.push_back(1);
  for (std::int64_t step = 1; step <= plan.steps; ++step) {
    std::uint64_t sum = 0;
    for (std::int64_t sample = 0; sample < kSamples; ++sample) sum += sample_value(step, sample);
    expected_.push_back(next_state(expected_.back(), sum));
  }
}

World::~World() {
  instance() = nullptr;
  kernel() = nullptr;
}

void World::tell(const std::string& who, const std::string& what) {
  const OfMachine not_of_process;
  story_.push_back(fmt::format("{:10.4f} {:<16} {}", static_cast<double>(machine_.now()) * 1e-9, who, what));
}

void World::finish() {
  result_.is_done = true;
  result_.digest = machine_.digest();
  result_.steps = machine_.steps();
  result_.lasted = machine_.now();
  result_.rounds = static_cast<int>(rounds_.size());
  result_.network = network().counts();
  for (const auto& process : machine_.processes()) {
    if (!process->name.ends_with("/agent")) continue;
    result_.most.raise_to(process->most);
    result_.most_share.raise_to(process->most.share_of(process->limit));
  }
  std::string text;
  const std::size_t first = story_.size() > kLines && !result_.is_full ? story_.size() - kLines : 0;
  for (std::size_t i = first; i < story_.size(); ++i) text += story_[i].substr(0, kLineLength) + "\n";
  copy(result_.story, sizeof result_.story, text);
}

void World::require(bool holds, const std::string& what) {
  if (holds) return;
  tell("VIOLATION", what);
  result_.has_failed = true;
  copy(result_.violation, sizeof result_.violation, what);
  finish();
  kernel() = nullptr;  // from here on, calls reach the real system
  ::_exit(0);
}

void World::make_hosts() {
  for (int i = 0; i < plan_.nodes; ++i) {
    Host& host = machine_.add_host(fmt::format("node{}", i));
    host.monotonic_offset = machine_.dice().between(kSecond, 1'000'000 * kSecond);
    host.wall_offset = 1'790'000'000 * kSecond + machine_.dice().between(-kSecond / 2, kSecond / 2);
    host.drift = static_cast<double>(machine_.dice().between(-200, 200)) * 1e-6;
  }
  for (const auto& from : machine_.hosts()) {
    for (const auto& to : machine_.hosts()) {
      network().link(*from, *to) = {.delay = plan_.delay, .jitter = plan_.delay / 2};
    }
  }
}

void World::run() {
  make_hosts();
  for (int i = 0; i < plan_.nodes; ++i) {
    const Nanos start = plan_.starts[static_cast<std::size_t>(i)];
    if (start == kNever) continue;
    ++starts_to_come_;
    machine_.at(start, [this, i] {
      --starts_to_come_;
      start_agent(i);
    });
  }
  for (const Fault& fault : plan_.faults) {
    if (fault.kind == Fault::Kind::kStartAgent) ++starts_to_come_;
    if (fault.after_error < 0) machine_.at(fault.at, [this, &fault] { apply(fault); });
  }
  machine_.run(plan_.end_by(), [this] { return is_over(); });
  check_end();
  finish();
}

bool World::is_over() const {
  return starts_to_come_ == 0 &&
         std::none_of(agents_.begin(), agents_.end(), [](const Agent& agent) { return agent.is_running; });
}

void World::start_agent(int node) {
  Agent& agent = agents_[static_cast<std::size_t>(node)];
  if (agent.is_running) return;
  Host& host = *machine_.hosts()[static_cast<std::size_t>(node)];
  host.is_up = true;
  const std::map<std::string, std::string> environment = {{"LOCKSTEP_TOKEN", kToken},
                                                          {"LOCKSTEP_TIMEOUT", std::to_string(plan_.timeout_s)},
                                                          {"OMP_NUM_THREADS", "1"},
                                                          {"OPENBLAS_CORETYPE", "Haswell"},  // skips CPU detection
                                                          {"LOCKSTEP_HOST_ID", host.name}};
  Process& process = machine_.spawn(host, fmt::format("{}/agent", host.name), environment);
  process.limit = limit_of(plan_);
  agent.process = &process;
  agent.is_running = true;
  ++agent.starts;
  tell(process.name, agent.starts == 1 ? "starts" : "is started again");
  process.on_end = [this, node, &process](int status) {
    Agent& ended = agents_[static_cast<std::size_t>(node)];
    ended.status = status;
    ended.is_running = false;
    tell(process.name, WIFEXITED(status) ? fmt::format("ends with exit code {}", WEXITSTATUS(status)) : "is killed");
  };
  machine_.start(process, [this, node, &process] {
    const int code = run_agent_of(node);
    check_agent_end(node, process);
    machine_.end_process(process, code << 8);
  });
}

int World::run_agent_of(int node) {
  AgentOptions options{.command = {"/bin/sh"},
                       .processes = plan_.ranks[static_cast<std::size_t>(node)],
                       .nodes = plan_.max_nodes,
                       .min_nodes = plan_.min_nodes,
                       .node_rank = plan_.is_range() ? -1 : node,
                       .master_addr = "10.0.0.1",
                       .master_port = kPort,
                       .max_restarts = plan_.max_restarts,
                       .last_call = std::chrono::seconds(plan_.last_call_s),
                       .take_in = plan_.takes_in_at_once ? TakeIn::kAtOnce : TakeIn::kAtCheckpoint,
                       .log_dir = fmt::format("logs/{}", node)};
  try {
    return run_agent(options);
  } catch (const Error& error) {
    machine_.print(*machine_.current()->process, fmt::format("{}: {}\n", error.type(), error.message()));
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    require(false, fmt::format("an agent ends with {}", error.what()));
    return 70;
  }
}

// The process that drew the nonce in the keys; without a nonce, the process whose store the agent connected to last.
int World::begun_by(const Process& agent, const std::string& keys) {
  const std::string nonce = keys.substr(keys.find('/') + 1, Kernel::kNotedDigits);
  for (const auto& process : machine_.processes()) {
    if (process->drawn.count(nonce) > 0) return process->pid;
  }
  return agent.served_by < 0 ? agent.pid : agent.served_by;
}

Rank& World::add_rank(Rank rank) {
  const OfMachine not_of_process;
  ranks_.push_back(rank);
  tell(rank.process->name, fmt::format("starts in round {}, of {} ranks", rank.round, rank.world_size));
  check_start(ranks_.back());
  check_claims(ranks_.back());
  check_history(ranks_.back());
  newest_ = std::max(newest_, {rank.served_by, rank.round});
  rounds_.insert({rank.served_by, rank.round});
  return ranks_.back();
}

void World::rank_ended(Rank& rank, int status) {
  rank.has_ended = true;
  has_broken_ = has_broken_ || (WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(ExitCode::kData));
  tell(rank.process->name,
       WIFEXITED(status) ? fmt::format("ends with exit code {}", WEXITSTATUS(status)) : "is killed");
}

std::pair<std::int64_t, std::uint64_t> World::load(const Rank& rank) {
  if (checkpoints_.empty()) return {0, 1};
  tell(rank.process->name, fmt::format("goes on after step {}", checkpoints_.back().first));
  return checkpoints_.back();
}

void World::commit(const Rank& rank, std::int64_t step, std::uint64_t state) {
  tell(rank.process->name, fmt::format("commits step {}", step));
  require(state == expected_[static_cast<std::size_t>(step)], "the state after a step is not that of its samples");
  const bool is_new = checkpoints_.empty() || checkpoints_.back().first < step;
  require(is_new, "a step is committed that a checkpoint has already");
  require(std::pair(rank.served_by, rank.round) == newest_, "a rank of an old round commits");
  checkpoints_.emplace_back(step, state);
}

bool World::is_agent(const Process& process) const {
  return std::any_of(agents_.begin(), agents_.end(), [&](const Agent& agent) { return agent.process == &process; });
}

Rank* World::rank_on(int node, int local_rank) {
  const Process* agent = agents_[static_cast<std::size_t>(node)].process;
  int seen = 0;
  for (Rank& rank : ranks_) {
    if (rank.agent != agent || rank.has_ended) continue;
    if (seen++ == local_rank) return &rank;
  }
  return nullptr;
}

void World::claimed(const Rank& rank, bool is_final) {
  for (const Fault& fault : plan_.faults) {
    if (fault.after_error >= 0 && !has_error_)
      machine_.at(machine_.now() + fault.after_error, [this, &fault] { apply(fault); });
  }
  has_error_ = true;
  if (is_final && !has_touched_node()) claims_.insert({rank.served_by, rank.round});
}

bool World::has_touched_node() const {
  return std::any_of(touched_.begin(), touched_.end(), [](const Touched& one) { return one.rank < 0; });
}

void World::touch(int node, int rank) { touched_.push_back({fmt::format("node{}", node), rank}); }

}  // namespace lockstep::sim
