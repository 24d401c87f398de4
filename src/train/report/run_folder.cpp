// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"
#include "lockstep/base/wait_notice.h"
#include "lockstep/view/run_log.h"
#include "train/report/log_cut.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string other_folder() { return "choose another " + option_words("run-dir"); }

std::string remedy_for(const std::string& remedy) {
  if (remedy.empty()) return "make it writable, or " + other_folder();
  return fmt::format("{}; {} then continues the run", remedy, option_words("resume", "auto"));
}

[[noreturn]] void fail(std::string_view verb, const fs::path& path, int code) {
  throw IoError(fmt::format("cannot {} {}: {}", verb, path.string(), error_words(code)),
                remedy_for(write_remedy(code)));
}

[[noreturn]] void refuse_unwritten(const fs::path& path, const IoError& error) {
  throw IoError(fmt::format("{} was not written: {}", path.string(), error.message()), remedy_for(error.hint()));
}

UniqueFd open_file(const fs::path& path, int flags) {
  UniqueFd fd = try_open_regular_file(path, flags | O_CREAT);
  if (!fd.valid()) fail("open", path, errno);
  return fd;
}

// Appends all of `text` or leaves the file unchanged.
void append(const UniqueFd& fd, const fs::path& path, std::string_view text) {
  const off_t before = ::lseek(fd.get(), 0, SEEK_END);
  // Uses a single write(2) if the disk allows it, so that readers see whole lines even after a kill.
  while (!text.empty()) {
    const ssize_t written = ::write(fd.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int code = errno;
      (void)!::ftruncate(fd.get(), before);
      fail("write", path, code);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Returns the device and inode; none if the path does not exist or cannot be read.
std::optional<std::pair<std::uint64_t, std::uint64_t>> identity_of(const fs::path& folder) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) return std::nullopt;
  return std::pair<std::uint64_t, std::uint64_t>(found.st_dev, found.st_ino);
}

void refuse_file(std::string_view role, const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored) || fs::is_directory(path, ignored)) return;
  throw UsageError(fmt::format("the {} {} is a file", role, path.string()), other_folder());
}

void make_folder(const fs::path& path) {
  refuse_file("run folder", path);
  try {
    make_folder_durably(FileSystem::system(), path);
  } catch (const IoError& error) {
    throw IoError(error.message(), remedy_for(error.hint()));
  }
}

// Returns the log folder of the `lockstep run` that started this rank; empty if another program did.
std::string launcher_logs() {
  const fs::path rank = fs::path(env::get("LOCKSTEP_ERROR_FILE").value_or("")).parent_path();
  const bool is_ours =
      rank.filename().string().starts_with("rank-") && rank.parent_path().filename().string().starts_with("attempt_");
  return is_ours ? rank.parent_path().parent_path().string() : "";
}

// Returns "pid 4711 on host", which appears in the error of another process that opens the folder, and below it the
// folder in which `lockstep doctor` finds the ranks.
std::string own_name() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string logs = launcher_logs();
  return fmt::format("pid {} on {}{}", ::getpid(), host, logs.empty() ? "" : "\nlogs " + logs);
}

// Killed ranks may need a moment to exit, and a killed run is often restarted right away.
constexpr std::chrono::milliseconds kPatience{3'000};

constexpr std::uint64_t kMostLockBytes = 4096;

// Returns " (pid 4711 on host)"; empty if the holder has not written that.
std::string holder_of(const fs::path& path) {
  const std::string holder = text::first_line(FileSystem::system().read(path, kMostLockBytes));
  return holder.empty() ? "" : fmt::format(" ({})", holder);
}

bool lock_within(const UniqueFd& fd, const fs::path& path, std::chrono::milliseconds patience) {
  const TimePoint begin = SystemClock::instance().now();
  WaitNotice notice(begin);
  while (try_lock_file(fd.get(), path) == FileLock::kBusy) {
    const TimePoint now = SystemClock::instance().now();
    if (now >= begin + patience) return false;
    const auto waited = patience > kPatience ? notice.due(now) : std::nullopt;
    if (waited) {
      log::note(
          "waiting for a process of the previous group{}, which still holds {} ({} so far); {} ends the wait after {}",
          holder_of(path), path.parent_path().string(), text::duration(waited->count()), env::timeout_variable(),
          text::duration(Seconds(patience).count()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// A restarted group has already held the lock, so the current holder is not a different run.
[[noreturn]] void refuse_held(const fs::path& folder, const fs::path& path, std::chrono::milliseconds waited) {
  if (waited > std::chrono::milliseconds(0)) {
    throw TimeoutError(fmt::format("a process of the previous group{} still holds {} after {}: it does not exit",
                                   holder_of(path), folder.string(), text::duration(Seconds(waited).count())),
                       fmt::format("look for it in the kernel's log (dmesg): a process that survives SIGKILL is "
                                   "waiting for a disk or a device; {} sets this limit",
                                   env::timeout_variable()));
  }
  throw UsageError(fmt::format("another process{} is training in {}", holder_of(path), folder.string()),
                   "wait for it to exit, or " + other_folder());
}

UniqueFd take_lock(const fs::path& folder, std::chrono::milliseconds wait) {
  const fs::path path = folder / ".lock";
  UniqueFd fd = open_file(path, O_RDWR);
  const bool was_there = wait > std::chrono::milliseconds(0);
  if (!lock_within(fd, path, was_there ? wait : kPatience)) refuse_held(folder, path, wait);
  if (::ftruncate(fd.get(), 0) != 0) fail("write", path, errno);
  append(fd, path, own_name());
  return fd;
}

// Returns true for a name from write_file_atomically(): "<file>.tmp-<pid>".
bool is_temporary(const std::string& name) {
  constexpr std::string_view kMark = ".tmp-";
  const auto at = name.rfind(kMark);
  return at != std::string::npos && at + kMark.size() < name.size() &&
         name.find_first_not_of("0123456789", at + kMark.size()) == std::string::npos;
}

// Only the holder of the lock writes here, so a half-written file must be left over from a dead process.
void remove_half_written(const fs::path& folder) {
  for (const std::string& name : FileSystem::system().list(folder)) {
    if (is_temporary(name)) FileSystem::system().remove(folder / name);
  }
}

// Removes files of ranks that were killed while reporting an error, in logs/attempt_<n>/rank-<r>. A file with the pid
// of a live process is kept, because ranks of this attempt may still be writing it.
void remove_half_written_errors(const fs::path& logs) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (fs::recursive_directory_iterator it(logs, ignored), end; !ignored && it != end; it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    const auto pid = std::strtol(name.substr(name.rfind('-') + 1).c_str(), nullptr, 10);
    if (is_temporary(name) && pid > 0 && ::kill(static_cast<pid_t>(pid), 0) != 0) found.push_back(it->path());
  }
  for (const fs::path& path : found) FileSystem::system().remove(path);
}

}  // namespace

RunFolder::RunFolder(fs::path path, const RunFolderOptions& options)
    : path_(std::move(path)), experiment_(options.experiment) {
  make_folder(path_);
  lock_ = take_lock(path_, options.wait_for_lock);
  identity_ = identity_of(path_).value_or(identity_);
  refuse_file("checkpoints folder", checkpoints());
  sync_names();
  if (!experiment_ && FileSystem::system().exists(path_ / settings_file(true))) {
    throw UsageError(
        fmt::format("{} is an experiment's folder: its config.yml does not belong to a run", path_.string()),
        fmt::format("use --folder {}, or choose another {}", path_.string(), option_words("run-dir")));
  }
  if (!options.resume && holds_a_run(path_, experiment_)) {
    throw UsageError(fmt::format("{} holds an earlier run", path_.string()),
                     fmt::format("{} continues it; or {}", option_words("resume", "auto"), other_folder()));
  }
  remove_half_written(path_);
  remove_half_written_errors(path_ / "logs");
  if (experiment_) link_snapshots();
  open_log();
}

/// A killed process may have named a checkpoint without syncing the name. A run that resumes from that checkpoint, or
/// that ends because this is its last checkpoint, must not lose it.
void RunFolder::sync_names() const {
  FileSystem& files = FileSystem::system();
  files.sync_folder(path_);
  if (files.exists(checkpoints())) files.sync_folder(checkpoints());
}

/// Users of the original program look for the checkpoints in `snapshot`.
void RunFolder::link_snapshots() const {
  std::error_code problem;
  const fs::path link = path_ / "snapshot";
  if (fs::symlink_status(link, problem).type() != fs::file_type::not_found) return;
  fs::create_directory_symlink("checkpoints", link, problem);
  if (problem) log::note("{} was not created: {}; see {}", link.string(), problem.message(), checkpoints().string());
}

void RunFolder::open_log() { log_ = open_file(path_ / view::kRunLog, O_WRONLY | O_APPEND); }

void RunFolder::require_there() const {
  const auto found = identity_of(path_);
  if (found == identity_) return;
  throw IoError(
      fmt::format("the run folder {} {} while the run was training in it: its files are lost", path_.string(),
                  found ? "was replaced" : "was removed"),
      fmt::format("start again; {} saves the run in another folder if this happens", option_words("rescue", "DIR")));
}

void RunFolder::write(const std::string& name, std::string_view content) {
  try {
    write_file_atomically(FileSystem::system(), path_ / name, content);
  } catch (const IoError& error) {
    refuse_unwritten(path_ / name, error);
  }
}

void RunFolder::log(const std::vector<std::pair<std::string, std::string>>& entries) {
  require_there();
  append(log_, path_ / view::kRunLog, view::log_line(entries));
}

void RunFolder::drop_log_after(std::int64_t step, bool repeats_epoch) {
  const fs::path path = path_ / view::kRunLog;
  train::LogCut cut;
  try {
    cut = train::cut_log(FileSystem::system(), path, {.step = step, .repeats_epoch = repeats_epoch});
  } catch (const IoError& error) {
    refuse_unwritten(path, error);
  }
  if (!cut.replaced) return;
  if (cut.damaged > 0) {
    log::note("{}: {} {} dropped as incomplete JSON, because a process was killed while writing", path.string(),
              cut.damaged, cut.damaged == 1 ? "line is" : "lines are");
  }
  open_log();  // the old descriptor belongs to the file that was replaced
}

fs::path RunFolder::default_path(const std::string& recipe) {
  return fs::path("runs") / fmt::format("{}-{}", recipe, time_stamp());
}

bool RunFolder::holds_a_run(const fs::path& path, bool experiment) {
  return FileSystem::system().exists(path / settings_file(experiment)) ||
         FileSystem::system().exists(path / "checkpoints");
}

}  // namespace lockstep
