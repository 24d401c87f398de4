// SPDX-License-Identifier: Apache-2.0
// Reads a run's folder and its living processes for view::diagnose().
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "launch/doctor/run_files.h"
#include "launch/failure.h"
#include "launch/hangs/process_state.h"
#include "launch/nodes/addresses.h"
#include "launch/output/log_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/split.h"
#include "lockstep/base/text.h"
#include "lockstep/flight/snapshot.h"
#include "lockstep/launch/doctor.h"
#include "lockstep/view/run_log.h"
#include "lockstep/view/terminal.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using launch::Notes;

constexpr std::size_t kMostAttempts = 100;
constexpr std::size_t kLastLines = 5;
constexpr int kWidestLine = 300;
constexpr std::uint64_t kMostLockBytes = 8192;
constexpr const char* kRing = "flight.ring";

bool is_there(const fs::path& path) {
  std::error_code problem;
  return fs::exists(path, problem);
}

/// The states of a rank's ring file. While the launcher is alive, the file is a link to the launcher's memory.
enum class RingFile { kNone, kKept, kLive, kDangling };

RingFile kind_of(const fs::path& ring) {
  std::error_code problem;
  const auto type = fs::symlink_status(ring, problem).type();
  if (type == fs::file_type::regular) return RingFile::kKept;
  if (type != fs::file_type::symlink) return RingFile::kNone;
  try {
    (void)flight::open_ring_file(ring);
    return RingFile::kLive;
  } catch (const Error&) {  // the launcher is gone, and its process ID may now belong to another process
    return RingFile::kDangling;
  }
}

flight::RankFacts facts_of_rank(int rank, const fs::path& ring, Notes& notes) {
  flight::RankFacts facts{.rank = rank, .host = launch::host_name()};
  try {
    facts.ring = flight::read_ring_file(ring);
  } catch (const Error&) {  // the rank has not started the ring, or the program does not use Lockstep
    return facts;
  }
  const auto process = launch::read_process(facts.ring->pid);
  facts.process = process.value_or(flight::ProcessState{.has_ended = true});
  if (facts.ring->rank != rank) notes.push_back(fmt::format("{} belongs to rank {}", ring.string(), facts.ring->rank));
  return facts;
}

void read_ranks(const fs::path& attempt, view::AttemptFacts& facts, view::RunFacts& run) {
  bool has_dangling = false;
  for (const auto& [rank, folder] : launch::numbered_folders(attempt, "rank-")) {
    ++facts.ranks;
    const RingFile kind = kind_of(folder / kRing);
    has_dangling = has_dangling || kind == RingFile::kDangling;
    facts.has_rings = facts.has_rings || kind == RingFile::kKept || kind == RingFile::kLive;
    if (kind == RingFile::kLive) run.ranks.push_back(facts_of_rank(rank, folder / kRing, run.notes));
    if (auto error = launch::read_error_file(folder / "error.json")) {
      error->message = text::first_line(error->message);
      error->rank = rank;
      facts.errors.push_back(*error);
    }
  }
  run.is_launched = !run.ranks.empty();
  run.launcher_is_gone = has_dangling && !run.is_launched;
}

/// Returns the rank to blame; failing that, a rank that has written an error.
int blamed_rank(const view::AttemptFacts& facts) {
  if (facts.verdict && facts.verdict->rank >= 0) return facts.verdict->rank;
  return facts.errors.empty() ? -1 : facts.errors.front().rank;
}

void read_last_lines(const fs::path& attempt, view::AttemptFacts& facts) {
  const int rank = blamed_rank(facts);
  if (rank < 0) return;
  const fs::path file = attempt / fmt::format("rank-{}", rank) / "stderr.log";
  for (const std::string& line : launch::last_lines(file, kLastLines)) {
    facts.blamed_lines.push_back(view::fit(text::for_people(line), kWidestLine));
  }
  if (!facts.blamed_lines.empty()) facts.blamed_log = file.string();
}

void read_attempts(const fs::path& logs, view::RunFacts& run) {
  auto attempts = launch::numbered_folders(logs, "attempt_");
  while (attempts.size() > kMostAttempts) attempts.erase(attempts.begin());
  for (const auto& [number, folder] : attempts) {
    view::AttemptFacts facts{.number = number};
    launch::read_verdict(folder / "verdict.json", facts, run.notes);
    const bool is_newest = number == attempts.rbegin()->first;
    if (is_newest) read_ranks(folder, facts, run);
    if (is_newest) read_last_lines(folder, facts);
    run.attempts.push_back(std::move(facts));
  }
}

/// Returns the lines that the training process has written into .lock, see RunFolder; none if there is no such file.
std::vector<std::string> lines_of_lock(const fs::path& run) {
  try {
    return text::split(FileSystem::system().read(run / ".lock", kMostLockBytes), '\n');
  } catch (const Error&) {  // the file is missing, or was not written by a run
    return {};
  }
}

/// Returns the folder that holds the attempts; empty if there is none. A program with a Trainer that `lockstep run`
/// started has its logs elsewhere, and names their folder in .lock.
fs::path logs_of(const fs::path& path, const std::vector<std::string>& lock) {
  constexpr std::string_view kLogs = "logs ";
  if (is_there(path / "logs")) return path / "logs";
  if (!launch::numbered_folders(path, "attempt_").empty()) return path;
  if (lock.size() < 2 || !lock[1].starts_with(kLogs)) return {};
  const fs::path elsewhere = lock[1].substr(kLogs.size());
  return launch::numbered_folders(elsewhere, "attempt_").empty() ? fs::path() : elsewhere;
}

/// Returns the training process as named in .lock, such as "pid 4711 on gpu-a"; empty if that process does not hold the
/// file open.
std::string trainer_of(const fs::path& run, const std::vector<std::string>& lock) {
  if (lock.empty() || !lock[0].starts_with("pid ")) return "";
  const int pid = std::atoi(lock[0].c_str() + 4);
  std::error_code problem;
  fs::directory_iterator open(fmt::format("/proc/{}/fd", pid), problem);
  for (; !problem && open != fs::directory_iterator(); open.increment(problem)) {
    std::error_code missing;
    if (fs::equivalent(open->path(), run / ".lock", missing)) return text::printable_line(lock[0]);
  }
  return "";
}

void require_run(const view::RunFacts& run, const fs::path& path) {
  if (run.has_settings || !run.attempts.empty() || is_there(path / view::kRunLog) || is_there(path / "checkpoints"))
    return;
  throw DataError(fmt::format("{} is not a run folder: it has neither config.yml nor attempt_0", path.string()),
                  "pass a run folder, or the folder that lockstep run prints as logs");
}

}  // namespace

std::filesystem::path logs_of_run(const std::filesystem::path& run) { return logs_of(run, lines_of_lock(run)); }

view::RunFacts read_run(const std::string& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) {
    throw DataError(fmt::format("{} is not a folder", path), "pass a run folder (runs/NAME) or a log folder");
  }
  const fs::path folder = path;
  view::RunFacts run{.path = path, .has_settings = is_there(folder / "config.yml")};
  run.is_recipe = run.has_settings && launch::names_recipe(folder / "config.yml");
  const std::vector<std::string> lock = lines_of_lock(folder);
  if (const fs::path logs = logs_of(folder, lock); !logs.empty()) read_attempts(logs, run);
  require_run(run, folder);
  run.trainer = trainer_of(folder, lock);
  run.summary = launch::read_summary(folder / "summary.json", run.notes);
  run.log = launch::read_log(folder / view::kRunLog, run.notes);
  run.checkpoint = launch::newest_checkpoint(folder, run.notes);
  run.suspects = launch::suspect_checkpoints(folder);
  run.now_ns = wall_time_ns();
  run.monotonic_ns = flight::now_ns();
  return run;
}

}  // namespace lockstep
