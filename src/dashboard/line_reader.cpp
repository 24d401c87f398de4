// SPDX-License-Identifier: Apache-2.0
#include "dashboard/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/base/file_system.h"

namespace lockstep::dashboard {
namespace {

constexpr std::size_t kPiece = 1 << 20;
constexpr std::size_t kLongestLine = 4 << 20;

}  // namespace

void LineReader::hand_out(const Use& line) {
  std::size_t begin = 0;
  for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    line(std::string_view(rest_).substr(begin, end - begin));
  }
  rest_.erase(0, begin);
  if (rest_.size() > kLongestLine) rest_ = " ";  // a line this long is not a JSON object
}

LineReader::Progress LineReader::read(std::uint64_t most, const std::function<void()>& restart, const Use& line) {
  Progress progress;
  const UniqueFd file = try_open_regular_file(file_, O_NOFOLLOW);
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return {.is_complete = true};
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ < at_ || (inode_ != 0 && inode_ != status.st_ino)) {
    at_ = 0;
    rest_.clear();
    progress.restarted = true;
    restart();
  }
  inode_ = status.st_ino;
  while (at_ < size_ && progress.read < most) {
    const std::size_t before = rest_.size();
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, size_ - at_));
    rest_.resize(before + size);
    const ssize_t got = ::pread(file.get(), rest_.data() + before, size, static_cast<off_t>(at_));
    rest_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) break;
    at_ += static_cast<std::uint64_t>(got);
    progress.read += static_cast<std::uint64_t>(got);
    hand_out(line);
  }
  progress.is_complete = at_ >= size_;
  return progress;
}

}  // namespace lockstep::dashboard
