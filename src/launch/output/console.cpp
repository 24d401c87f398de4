// SPDX-License-Identifier: Apache-2.0
#include "launch/output/console.h"

#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kFullBytes = 1U << 20U;
// Maximum number of already written bytes that a chunk keeps before they are removed.
constexpr std::size_t kKeptBytes = 1U << 18U;

int fd_of(int stream) { return stream == 0 ? STDOUT_FILENO : STDERR_FILENO; }

bool is_writable(int fd) {
  pollfd entry{fd, POLLOUT, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// Returns how many bytes can be written without blocking: PIPE_BUF for a writable pipe, any number for a file.
std::size_t at_once(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? kFullBytes : PIPE_BUF;
}

}  // namespace

MuxOptions Console::describe(ConsoleStyle style) {
  MuxOptions options{
      .style = style, .is_terminal = {::isatty(STDOUT_FILENO) == 1, ::isatty(STDERR_FILENO) == 1}, .width = 80};
  winsize size{};
  if (::ioctl(options.is_terminal[0] ? STDOUT_FILENO : STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.width = size.ws_col;
  }
  return options;
}

void Console::put(int stream, std::string_view bytes) {
  if (is_closed_[stream] || bytes.empty()) return;
  if (chunks_.empty() || chunks_.back().stream != stream) chunks_.push_back({stream, {}});
  chunks_.back().bytes += bytes;
  waiting_bytes_ += bytes.size();
  write_some();
}

int Console::waiting_fd() const noexcept { return chunks_.empty() ? -1 : fd_of(chunks_.front().stream); }

bool Console::is_full() const noexcept { return waiting_bytes_ > kFullBytes; }

void Console::write_some() noexcept {
  while (!chunks_.empty() && is_writable(fd_of(chunks_.front().stream))) write_front();
}

void Console::drain() noexcept {
  while (!chunks_.empty()) write_front();
}

void Console::drop() noexcept {
  chunks_.clear();
  waiting_bytes_ = 0;
}

void Console::write_front() noexcept {
  Chunk& chunk = chunks_.front();
  const std::string_view rest = std::string_view(chunk.bytes).substr(chunk.written);
  auto count = static_cast<ssize_t>(std::min(rest.size(), at_once(fd_of(chunk.stream))));
  if (!is_closed_[chunk.stream]) {
    const ssize_t written = ::write(fd_of(chunk.stream), rest.data(), static_cast<std::size_t>(count));
    if (written < 0 && errno == EINTR) return;
    if (written < 0 && errno == EAGAIN) {
      pollfd entry{fd_of(chunk.stream), POLLOUT, 0};
      ::poll(&entry, 1, -1);
      return;
    }
    // The reader closed the pipe (`| head`), or the disk is full: the ranks continue, and their logs have everything.
    if (written < 0 && errno != EPIPE) {
      log::warn("standard {} no longer accepts output ({})", chunk.stream == 0 ? "output" : "error",
                error_words(errno));
    }
    if (written < 0) is_closed_[chunk.stream] = true;
    if (written >= 0) count = written;
  }
  chunk.written += static_cast<std::size_t>(count);
  waiting_bytes_ -= static_cast<std::size_t>(count);
  if (chunk.written == chunk.bytes.size()) {
    chunks_.pop_front();
  } else if (chunk.written > kKeptBytes) {
    chunk.bytes.erase(0, std::exchange(chunk.written, 0));
  }
}

}  // namespace lockstep::launch
