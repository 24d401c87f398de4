// SPDX-License-Identifier: Apache-2.0
#include "launch/group_output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "lockstep/launch/agent.h"

namespace lockstep::launch {
namespace {

// Chooses the lines that reach the console, as in torchrun's --redirects, --tee and --local-ranks-filter. Pure.

// torchrun's numbers: 1 is stdout, 2 stderr, 3 both.
bool has_stream(const StreamsByRank& streams, int local_rank, int stream) {
  const auto found = streams.by_rank.find(local_rank);
  const int bits = found != streams.by_rank.end() ? found->second : streams.others;
  return (bits >> stream & 1) != 0;
}

/// Returns true if `stream` (0 stdout, 1 stderr) of a local rank is shown on the console.
bool is_on_console(const ConsoleChoice& choice, int local_rank, int stream) {
  const auto& only = choice.local_ranks;
  if (!only.empty() && std::find(only.begin(), only.end(), local_rank) == only.end()) return false;
  return has_stream(choice.tee, local_rank, stream) || !has_stream(choice.redirects, local_rank, stream);
}

/// Returns the prefix of a line: `text` with ${role_name}, ${local_rank} and ${rank} filled in.
std::string fill_prefix(const std::string& text, const std::string& role, int local_rank, int rank) {
  const std::array<std::pair<std::string, std::string>, 3> fields = {
      {{"${role_name}", role}, {"${local_rank}", std::to_string(local_rank)}, {"${rank}", std::to_string(rank)}}};
  std::string filled = text;
  for (const auto& [name, value] : fields) {
    for (std::size_t at = 0; (at = filled.find(name, at)) != std::string::npos; at += value.size()) {
      filled.replace(at, name.size(), value);
    }
  }
  return filled;
}

constexpr auto kIdleTime = std::chrono::milliseconds(300);

MuxOptions mux_options(const AgentOptions& options, int first_rank) {
  MuxOptions mux = Console::describe(options.console);
  mux.prefix_of = [&options, first_rank](int rank) {
    return fill_prefix(options.shown.prefix, options.role, rank - first_rank, rank);
  };
  return mux;
}

}  // namespace

GroupOutput::GroupOutput(const AgentOptions& options, int first_rank)
    : options_(options),
      first_rank_(first_rank),
      mux_options_(mux_options(options, first_rank)),
      mux_(mux_options_, [this](int stream, std::string_view bytes) { console_.put(stream, bytes); }) {}

Channel GroupOutput::channel_of(int rank, int stream) const {
  // With prefixed lines, the bar stays below the lines of all ranks.
  return rank == 0 && mux_options_.is_terminal[stream] ? Channel::kTerminal : Channel::kPipe;
}

void GroupOutput::read(Worker& worker, RankLog& log, int stream, bool to_the_end) {
  char chunk[32 << 10];
  do {
    const int fd = worker.output(stream);
    const ssize_t count = fd < 0 ? 0 : ::read(fd, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {  // a closed terminal reports EIO
      worker.close_output(stream);
      mux_.finish(worker.rank(), stream);
      return;
    }
    const std::string_view bytes(chunk, static_cast<std::size_t>(count));
    log.write(stream, bytes);
    if (is_on_console(options_.shown, worker.rank() - first_rank_, stream)) mux_.feed(worker.rank(), stream, bytes);
    last_output_ = SystemClock::instance().now();
    ++count_;
  } while (to_the_end);
}

void GroupOutput::close(Worker& worker, RankLog& log) {
  for (const int stream : {1, 0}) {  // stderr first: the bar is cleared there before a row goes to stdout
    read(worker, log, stream, true);
    worker.close_output(stream);
    mux_.finish(worker.rank(), stream);
  }
}

int GroupOutput::prefix_columns() const {
  if (options_.console != ConsoleStyle::kPrefix) return 0;
  return static_cast<int>(fill_prefix(options_.shown.prefix, options_.role, 0, 0).size());
}

bool GroupOutput::more_errors_arrive(const Worker& worker) const {
  constexpr int kLagMs = 5;
  pollfd entry{worker.output(1), POLLIN, 0};
  return channel_of(worker.rank(), 1) == Channel::kTerminal && entry.fd >= 0 && ::poll(&entry, 1, kLagMs) > 0;
}

void GroupOutput::resize(const Worker& worker) const {
  for (int stream = 0; stream < 2; ++stream) {
    winsize size{};
    if (channel_of(worker.rank(), stream) != Channel::kTerminal) continue;
    if (!read_size(stream == 0 ? STDOUT_FILENO : STDERR_FILENO, prefix_columns(), size)) continue;
    ::ioctl(worker.output(stream), TIOCSWINSZ, &size);
  }
}

TimePoint GroupOutput::idle_at() const { return mux_.wants_idle() ? last_output_ + kIdleTime : TimePoint::max(); }

void GroupOutput::on_time(TimePoint now) {
  if (now >= idle_at()) mux_.idle();
}

}  // namespace lockstep::launch
