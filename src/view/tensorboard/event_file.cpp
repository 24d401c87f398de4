// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "view/tensorboard/messages.h"

namespace lockstep::view {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::size_t kWriteAt = 1 << 18;  // bytes

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return host[0] == '\0' ? "localhost" : host;
}

/// Returns the number after the prefix of an event file's name; 0 for any other name.
std::int64_t time_in(std::string_view name) {
  std::int64_t time = 0;
  if (name.starts_with(kPrefix)) std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), time);
  return time;
}

/// TensorBoard reads a folder's files in the order of their names, so the time in the name is later than in all
/// existing names, even if the clock is behind.
std::string new_name(const std::vector<std::string>& there) {
  auto time = static_cast<std::int64_t>(wall_time());
  for (const std::string& name : there) time = std::max(time, time_in(name) + 1);
  return fmt::format("{}{:010}.{}.{}.0", kPrefix, time, host_name(), ::getpid());
}

}  // namespace

EventFile::EventFile(const fs::path& folder, const EventFileOptions& options)
    : clock_(options.clock != nullptr ? *options.clock : SystemClock::instance()),
      write_every_(options.write_every),
      written_(clock_.now()) {
  FileSystem& files = options.files != nullptr ? *options.files : FileSystem::system();
  files.make_folder(folder);
  path_ = folder / new_name(files.list(folder));
  file_ = files.create(path_);
  add(0, kFileVersion, "brain.Event:2");
  add(options.after_step == 0 ? 0 : options.after_step + 1, kSessionLog, session_start_bytes());
  flush();
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const Error&) {
    // The last points could not be written, but that does not end the run.
  }
}

void EventFile::scalars(std::int64_t step, const Scalars& points) { add(step, kSummary, scalars_bytes(points)); }

void EventFile::histogram(std::int64_t step, std::string_view tag, const Histogram& histogram) {
  add(step, kSummary, histogram_bytes(tag, histogram));
}

bool EventFile::image(std::int64_t step, std::string_view tag, std::string_view encoded) {
  const auto kind = image_kind(encoded);
  if (kind) add(step, kSummary, image_bytes(tag, *kind, encoded));
  return kind.has_value();
}

void EventFile::text(std::int64_t step, std::string_view tag, std::string_view markdown) {
  add(step, kSummary, text_bytes(tag, markdown));
}

void EventFile::start_session(const HyperParameters& settings, std::string_view group) {
  add(0, kSummary, hparams_start_bytes(settings, group, wall_time()));
}

void EventFile::end_session(const HyperParameters& settings, const std::vector<std::string>& metrics, bool success) {
  if (!metrics.empty()) add(0, kSummary, hparams_columns_bytes(settings, metrics, wall_time()));
  add(0, kSummary, hparams_end_bytes(success, wall_time()));
}

void EventFile::add(std::int64_t step, int field, std::string_view message) {
  if (is_broken_) return;
  append_record(gathered_, event_bytes(wall_time(), step, field, message));
  if (gathered_.size() >= kWriteAt || clock_.now() - written_ >= write_every_) flush();
}

void EventFile::flush() {
  if (gathered_.empty() || is_broken_) return;
  is_broken_ = true;  // reset if the write succeeds
  file_->append(gathered_.data(), gathered_.size());
  is_broken_ = false;
  gathered_.clear();
  written_ = clock_.now();
}

std::string as_is(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += "    ";
    out += text.substr(0, end);
    out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace lockstep::view
