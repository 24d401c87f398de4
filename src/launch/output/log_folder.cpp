// SPDX-License-Identifier: Apache-2.0
#include "launch/output/log_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "launch/output/line_mux.h"
#include "launch/output/temporary_logs.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

fs::path parent_of_temporary() {
  std::error_code problem;
  const fs::path parent = fs::temp_directory_path(problem);
  return problem ? "/tmp" : parent;
}

}  // namespace

LogFolder::LogFolder(fs::path folder) : folder_(std::move(folder)), is_temporary_(folder_.empty()) {
  if (is_temporary_) {
    const fs::path parent = parent_of_temporary();
    prune_temporary_logs(parent);
    TemporaryLogs logs = make_temporary_logs(parent);
    folder_ = std::move(logs.folder);
    lock_ = std::move(logs.lock);
  } else {
    FileSystem::system().make_folder(folder_);
    // Workers may change their working directory.
    folder_ = fs::absolute(folder_);
  }
}

fs::path LogFolder::rank_folder(int attempt, int rank) const {
  return folder_ / fmt::format("attempt_{}", attempt) / fmt::format("rank-{}", rank);
}

int LogFolder::first_free_attempt(int rank) const {
  int attempt = 0;
  while (FileSystem::system().exists(rank_folder(attempt, rank))) ++attempt;
  return attempt;
}

LogFolder::~LogFolder() {
  if (!is_temporary_ || is_removed_) return;
  ::futimens(lock_.get(), nullptr);  // the folder's age counts from the end of the run
  prune_temporary_logs(folder_.parent_path());
}

void LogFolder::remove() noexcept {
  if (!is_temporary_) return;
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  is_removed_ = true;
}

RankLog::RankLog(fs::path folder) : folder_(std::move(folder)) {
  FileSystem::system().make_folder(folder_);
  // Only the user may read a program's output, which may contain a password in a URL, or lines of a data set.
  if (::chmod(folder_.c_str(), 0700) != 0) {
    throw IoError(fmt::format("cannot make {} private to this user ({})", folder_.string(), error_words(errno)));
  }
  for (int stream = 0; stream < 2; ++stream) {
    files_[stream] = try_open_regular_file(file(stream), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (!files_[stream].valid())
      throw IoError(fmt::format("cannot write {} ({})", file(stream).string(), error_words(errno)));
  }
}

void RankLog::write(int stream, std::string_view bytes) {
  while (!bytes.empty() && !has_failed_) {
    const ssize_t count = ::write(files_[stream].get(), bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      has_failed_ = true;
      log::warn("{} is no longer being written ({})", file(stream).string(), error_words(errno));
    }
  }
}

std::vector<std::string> last_lines(const fs::path& file, std::size_t count) {
  constexpr std::streamoff kEnough = 64 << 10;
  std::error_code missing;
  if (!fs::is_regular_file(file, missing)) return {};
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const std::streamoff size = in.tellg();
  in.seekg(size > kEnough ? size - kEnough : 0);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(without_colours(last_piece(line)));
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

}  // namespace lockstep::launch
