// SPDX-License-Identifier: Apache-2.0
#include "sim/saves/world.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/store/store.h"
#include "sim/network.h"

namespace lockstep::sim::saves {
namespace {

constexpr std::size_t kLines = 55;
constexpr std::size_t kLineLength = 230;

constexpr int kFirstNumber = 7;  // the first pid in a container

World*& instance() {
  static World* world = nullptr;
  return world;
}

void copy(char* to, std::size_t size, const std::string& text) { std::snprintf(to, size, "%s", text.c_str()); }

}  // namespace

World& world() { return *instance(); }

World::World(const Plan& plan, Result& result) : plan_(plan), result_(result), machine_(plan.seed * 2) {
  instance() = this;
  kernel() = &machine_;
  disk() = &disk_;
  disk_.state.latency = plan.latency;
  disk_.state.has_locks = plan.has_locks;
  disk_.on_change = [this](const std::string& from, const std::string& to) { check_change(from, to); };
  on_meet = [](Process&, Process&) {};
  machine_.add_global(const_cast<AwakeClock*>(&AwakeClock::instance()), sizeof(AwakeClock));
  machine_.on_line = [this](Process& process, const std::string& line) { tell(process.name, line); };
  machine_.on_wrong = [this](const std::string& what) { require(false, what); };
  machine_.on_spin = [this](Process& process) { require(false, process.name + " takes a whole processor"); };
  for (int i = 0; i <= plan_.hosts; ++i) {
    Host& host = machine_.add_host(i == plan_.hosts ? "store" : fmt::format("host{}", i));
    host.monotonic_offset = machine_.dice().between(kSecond, 1'000'000 * kSecond);
    host.wall_offset = 1'790'000'000 * kSecond;
  }
}

World::~World() {
  disk() = nullptr;
  kernel() = nullptr;
  instance() = nullptr;
}

void World::tell(const std::string& who, const std::string& what) {
  story_.push_back(fmt::format("{:10.4f} {:<16} {}", static_cast<double>(machine_.now()) * 1e-9, who, what));
}

void World::finish() {
  result_.is_done = true;
  result_.digest = machine_.digest();
  result_.steps = machine_.steps();
  result_.lasted = machine_.now();
  result_.rounds = round_ + 1;
  result_.calls_failed = failures();
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

std::uint64_t World::failures() const {
  std::uint64_t sum = 0;
  for (const auto& [kind, count] : disk_.failures) sum += count;
  return sum;
}

std::int64_t World::value_of(std::int64_t step, int round) const { return step * 1000 + (plan_.is_exact ? 0 : round); }

void World::run() {
  for (const Fault& fault : plan_.faults) machine_.at(fault.at, [this, &fault] { apply(fault); });
  start_round();
  machine_.run(plan_.end_by(), [this] { return is_over_; });
  require(is_over_, "the job does not end though the faults are over");
  finish();
}

void World::serve_store() {
  Host& host = *machine_.hosts().back();
  store_ = &machine_.spawn(host, "store", {{"LOCKSTEP_TIMEOUT", "60"}});
  store_->on_end = [this](int) { store_ = nullptr; };
  machine_.start(*store_, [] {
    const StoreServer server({.host = "0.0.0.0", .port = 29'500, .token = "0123"});
    kernel()->block(kNever);
  });
}

void World::start_round_in(Nanos time) {
  if (std::exchange(will_start_, true)) return;
  machine_.at(machine_.now() + time, [this] {
    will_start_ = false;
    start_round();
  });
}

void World::start_round() {
  const auto is_there = [](const auto& host) { return !host->is_frozen; };
  if (std::none_of(machine_.hosts().begin(), machine_.hosts().end() - 1, is_there)) return start_round_in(kSecond);
  ++round_;
  has_round_failed_ = false;
  if (store_ == nullptr) serve_store();
  const auto world_size = static_cast<int>(machine_.dice().between(1, plan_.ranks));
  for (int rank = 0; rank < world_size; ++rank) start_rank(rank, world_size);
}

void World::start_rank(int rank, int world_size) {
  std::vector<Host*> hosts;
  for (int i = 0; i < plan_.hosts; ++i) {
    Host* host = machine_.hosts()[static_cast<std::size_t>(i)].get();
    if (!host->is_frozen) hosts.push_back(host);
  }
  Host& host = *hosts[static_cast<std::size_t>(machine_.dice().bits() % hosts.size())];
  for (Rank& old : ranks_) {  // an agent starts no ranks while old ranks are running on its host
    if (old.round != round_ && old.process->host == &host) machine_.end_process(*old.process, SIGKILL);
  }
  const std::map<std::string, std::string> environment = {{"LOCKSTEP_TIMEOUT", "60"},
                                                          {"OPENBLAS_CORETYPE", "Haswell"},
                                                          {"STORE_HOST", fmt::format("10.0.0.{}", plan_.hosts + 1)}};
  Process& process = machine_.spawn(host, fmt::format("{}/rank{}.{}", host.name, rank, round_), environment);
  if (plan_.are_containers) process.number = kFirstNumber + rank;
  ranks_.push_back(
      {.process = &process, .rank = rank, .world_size = world_size, .round = round_, .failures_before = failures()});
  Rank& self = ranks_.back();
  tell(process.name, fmt::format("starts, pid {}, of {} ranks", process.number, world_size));
  process.on_end = [this, &self](int status) { rank_ended(self, status); };
  machine_.start(process, [this, &self, &process] {
    const int code = run_rank(self);
    machine_.end_process(process, code << 8);
  });
}

void World::rank_ended(Rank& rank, int status) {
  rank.has_ended = true;
  tell(rank.process->name,
       WIFEXITED(status) ? fmt::format("ends with exit code {}", WEXITSTATUS(status)) : "is killed");
  if (rank.round != round_) return;
  const auto is_left = [&](const Rank& other) { return other.round == round_ && !other.has_ended; };
  if (status != 0) return fail_round(machine_.dice().between(0, 2 * kSecond));
  if (!has_round_failed_ && std::none_of(ranks_.begin(), ranks_.end(), is_left)) inspect();
}

// Notifies the other ranks of the round and kills them; then the next round begins.
void World::fail_round(Nanos until_kill) {
  if (std::exchange(has_round_failed_, true)) return;
  const int round = round_;
  machine_.at(machine_.now() + machine_.dice().between(0, until_kill), [this, round] {
    for (Rank& rank : ranks_) rank.gives_up = rank.gives_up || rank.round == round;
  });
  machine_.at(machine_.now() + until_kill, [this, round] {
    if (round != round_) return;  // a power cut got there first
    stop_ranks(round);
    start_round_in(machine_.dice().between(kMilli, 500 * kMilli));
  });
}

// Kills the ranks of rounds up to `round`, except on paused hosts, which cannot be reached.
void World::stop_ranks(int round) {
  for (Rank& rank : ranks_) {
    if (rank.round <= round && !rank.has_ended && !rank.process->host->is_frozen) {
      machine_.end_process(*rank.process, SIGKILL);
    }
  }
}

// After the job, checks that its last step is there; in half of the worlds, after a power cut.
void World::inspect() {
  is_job_done_ = true;
  if (machine_.dice().chance(0.5)) cut_power();
  disk_.state = {.latency = plan_.latency};
  Process& process = machine_.spawn(*machine_.hosts()[0], "person", {{"LOCKSTEP_TIMEOUT", "60"}});
  for (const auto& host : machine_.hosts()) {
    host->is_frozen = false;
    for (const auto& other : machine_.processes()) {
      if (other.get() != &process) machine_.end_process(*other, SIGKILL);
    }
  }
  ranks_.push_back({.process = &process, .round = round_, .failures_before = failures()});
  machine_.start(process, [this, &self = ranks_.back()] {
    look_after(self);
    is_over_ = true;
    machine_.end_fiber();
  });
}

}  // namespace lockstep::sim::saves
