// SPDX-License-Identifier: Apache-2.0
#include "run_choice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/awake_clock.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

// Only a folder has a "." entry; files and missing paths do not.
bool is_folder(FileSystem& files, const fs::path& path) { return files.exists(path / "."); }

// Uses the same test as RunFolder in the train module.
bool holds_a_run(FileSystem& files, const fs::path& folder, bool experiment = false) {
  return files.exists(folder / (experiment ? "config.resolved.yml" : "config.yml")) ||
         files.exists(folder / "checkpoints");
}

fs::path new_folder(const RunRequest& request) {
  return make_new_folder(request.runs / fmt::format("{}-{}", request.name, request.time));
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// True for names that `lockstep train` itself generates: "captcha-20261121-093000", not
// "captcha-digits-20261121-093000".
bool is_default_name(std::string_view folder, std::string_view name) {
  return folder != name && without_time_stamp(folder) == name;
}

// Local times of the same moment differ by up to this many seconds, between UTC-12 and UTC+14.
constexpr std::int64_t kMostZones = 26 * 3600;

// The time in a default name as if it were UTC, in seconds since 1970.
std::int64_t time_in_name(const std::string& folder) {
  std::tm time{};
  ::strptime(folder.c_str() + without_time_stamp(folder).size(), "-%Y%m%d-%H%M%S", &time);
  return ::timegm(&time);
}

// When the run last wrote its settings, which is when it began or continued.
fs::file_time_type last_start(const fs::path& folder) {
  for (const char* name : {"config.yml", "checkpoints"}) {
    std::error_code problem;
    const auto time = fs::last_write_time(folder / name, problem);
    if (!problem) return time;
  }
  return fs::file_time_type::min();
}

// The name of the newest of these runs; "" if there is none. The names have local times: those of a container with
// another time zone, or of the hour that a clock change repeats, are out of order. So the files' times decide between
// names that are close. They do not decide between others, because a copy of the folder has new times.
std::string newest_of(const std::vector<std::string>& runs, const fs::path& folder) {
  auto latest = std::numeric_limits<std::int64_t>::min();
  for (const std::string& name : runs) latest = std::max(latest, time_in_name(name));
  std::pair<fs::file_time_type, std::string> newest{fs::file_time_type::min(), ""};
  for (const std::string& name : runs) {
    if (time_in_name(name) >= latest - kMostZones) newest = std::max(newest, {last_start(folder / name), name});
  }
  return newest.second;
}

RunChoice newest_or_new(const RunRequest& request, FileSystem& files) {
  auto names = files.list(request.runs);
  std::erase_if(names, [&](const std::string& name) {
    return !is_default_name(name, request.name) || !holds_a_run(files, request.runs / name);
  });
  const std::string newest = newest_of(names, request.runs);
  if (!newest.empty()) {
    const fs::path folder = request.runs / newest;
    return {folder, fmt::format("--resume auto: {} is the newest run; continuing it", folder.string())};
  }
  const fs::path folder = new_folder(request);
  return {folder, fmt::format("--resume auto: there is no run named {}; starting a new one in {}",
                              (request.runs / (request.name + "-<time>")).string(), folder.string())};
}

bool is_step_folder(FileSystem& files, const fs::path& path) {
  const std::string name = path.filename().string();
  return files.exists(path / "manifest.json") || (name.starts_with("step-") && is_digits(name.substr(5, 8)));
}

// The path for messages: relative if it is below the working directory.
fs::path for_people(const fs::path& absolute) {
  const fs::path relative = absolute.lexically_relative(fs::current_path());
  return relative.empty() || *relative.begin() == ".." ? absolute : relative;
}

// The run folder of `folder`, which is the run's "checkpoints" or a checkpoint in it; none outside a run folder.
std::optional<fs::path> run_of(FileSystem& files, const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "runs/a/" is "runs/a"
  if (is_step_folder(files, path)) {
    path = path.parent_path();
  } else if (is_folder(files, path / "checkpoints")) {
    return for_people(path);
  }
  if (path.filename() != "checkpoints") return std::nullopt;
  return for_people(path.parent_path());
}

// The run folder of a checkpoint. Throws: DataError if the path does not exist.
std::optional<fs::path> run_of_checkpoint(FileSystem& files, const std::string& where) {
  constexpr const char* kWays = "use auto, none, a step folder, a run folder (its newest valid checkpoint) or RUN:NAME";
  if (is_folder(files, where)) return run_of(files, where);
  if (files.exists(where)) {
    throw DataError(fmt::format("--resume {}: this is a file, not a checkpoint: it has no training state", where),
                    fmt::format("to start a new run from its weights: --init-from {}, or -t for short", where));
  }
  const auto colon = where.rfind(':');
  if (colon != std::string::npos && is_folder(files, where.substr(0, colon))) {
    return run_of(files, where.substr(0, colon));
  }
  throw DataError(
      fmt::format("--resume {}: there is no such checkpoint{}", where, text::did_you_mean(where, {"auto", "none"})),
      kWays);
}

// How long killed ranks may take to exit.
constexpr auto kPatience = std::chrono::seconds(3);

// Takes a lock and releases it immediately. The lock is shared, so that two processes that only check do not collide.
void require_free(const fs::path& folder) {
  const fs::path path = folder / ".lock";
  const UniqueFd lock = try_open_regular_file(path);
  const TimePoint end = AwakeClock::instance().now() + kPatience;
  while (AwakeClock::instance().now() < end) {
    if (!lock.valid() || ::flock(lock.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string holder = text::first_line(FileSystem::system().read(path, 4096));
  throw UsageError(fmt::format("another process{} is training in {}",
                               holder.empty() ? "" : fmt::format(" ({})", holder), folder.string()),
                   "wait until it exits, or choose another --run-dir");
}

void require_writable(const fs::path& folder) {
  const fs::path path = folder / ".lock";
  const UniqueFd lock = try_open_regular_file(path, O_RDWR | O_CREAT);
  if (!lock.valid()) throw IoError(fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
}

void require_no_other_run(FileSystem& files, const fs::path& folder, bool experiment) {
  if (!holds_a_run(files, folder, experiment)) return;
  require_free(folder);
  throw UsageError(fmt::format("{} holds an earlier run", folder.string()),
                   "continue it with --resume auto, or choose another --run-dir");
}

RunChoice run_from_path(const RunRequest& request, FileSystem& files) {
  const auto own = run_of_checkpoint(files, request.resume);
  if (!request.run_dir && own) return {*own, ""};
  RunChoice choice{request.run_dir ? fs::path(*request.run_dir) : new_folder(request), ""};
  if (own && is_same_folder(choice.run_dir, *own)) return choice;
  require_no_other_run(files, choice.run_dir, request.experiment);
  if (!request.run_dir) {
    choice.note =
        fmt::format("{} is not in a run folder; starting a new run in {}", request.resume, choice.run_dir.string());
  }
  return choice;
}

/// Leaves a URL for rank 0 to fetch: without libtorch this program cannot read checkpoints.
RunChoice run_from_url(const RunRequest& request, FileSystem& files) {
  if (!request.resume.starts_with("http://") && !request.resume.starts_with("https://")) {
    throw UsageError(fmt::format("--resume {}: only http:// and https:// URLs can be fetched", request.resume),
                     "copy the checkpoint to this machine first");
  }
  RunChoice choice{request.run_dir ? fs::path(*request.run_dir) : new_folder(request), ""};
  require_no_other_run(files, choice.run_dir, request.experiment);
  return choice;
}

RunChoice choose(const RunRequest& request, FileSystem& files) {
  if (request.resume.empty()) throw UsageError("--resume needs a value", "use auto, none or a path");
  if (request.resume.find("://") != std::string::npos) return run_from_url(request, files);
  if (request.resume == "auto") {
    return request.run_dir ? RunChoice{*request.run_dir, ""} : newest_or_new(request, files);
  }
  if (request.resume != "none") return run_from_path(request, files);
  RunChoice choice{request.run_dir ? fs::path(*request.run_dir) : new_folder(request), ""};
  require_no_other_run(files, choice.run_dir, request.experiment);
  return choice;
}

}  // namespace

bool is_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code problem;
  // Both paths get a trailing slash, because weakly_canonical() keeps it for a missing folder.
  return fs::weakly_canonical(a / "", problem) == fs::weakly_canonical(b / "", problem) && !problem;
}

RunChoice choose_run(const RunRequest& request, FileSystem& files) {
  RunChoice choice = choose(request, files);
  if (files.exists(choice.run_dir) && !is_folder(files, choice.run_dir)) {
    throw UsageError(fmt::format("the run folder {} is a file", choice.run_dir.string()), "choose another --run-dir");
  }
  return choice;
}

void require_usable(const fs::path& run_dir) {
  try {
    FileSystem::system().make_folder(run_dir);
    require_writable(run_dir);
  } catch (const IoError& error) {
    throw IoError(error.message(),
                  error.hint().empty() ? "make it writable, or choose another --run-dir" : error.hint());
  }
  require_free(run_dir);
}

}  // namespace lockstep::apps
