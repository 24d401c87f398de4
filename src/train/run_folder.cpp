// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

UniqueFd open_file(const std::filesystem::path& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) throw IoError(fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
  return fd;
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path path) : path_(std::move(path)) {
  FileSystem::system().make_folder(path_);
  lock_ = open_file(path_ / ".lock", O_RDWR);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    throw UsageError(fmt::format("another process is training in {}", path_.string()), "choose another --run-dir");
  }
  if (holds_a_run(path_)) {
    throw UsageError(fmt::format("{} holds an earlier run", path_.string()), "choose another --run-dir");
  }
  log_ = open_file(path_ / "log.jsonl", O_WRONLY | O_APPEND);
}

void RunFolder::write(const std::string& name, std::string_view content) {
  write_file_atomically(FileSystem::system(), path_ / name, content);
}

void RunFolder::log(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string line = "{";
  for (const auto& [key, value] : entries) {
    line += fmt::format("{}{}: {}", line.size() > 1 ? ", " : "", text::json_quote(key), value);
  }
  line += "}\n";
  // One write(2) a line: a reader, or a kill, never sees half of one from two writers.
  if (::write(log_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw IoError(fmt::format("cannot write {}: {}", (path_ / "log.jsonl").string(), std::strerror(errno)),
                  errno == ENOSPC ? "free space on that disk" : "");
  }
}

std::filesystem::path RunFolder::default_path(const std::string& recipe) {
  return std::filesystem::path("runs") / fmt::format("{}-{}", recipe, time_stamp());
}

bool RunFolder::holds_a_run(const std::filesystem::path& path) {
  return FileSystem::system().exists(path / "config.yml") || FileSystem::system().exists(path / "checkpoints");
}

}  // namespace lockstep
