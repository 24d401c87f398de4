// SPDX-License-Identifier: Apache-2.0
#include "dashboard/live_ranks.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "dashboard/process.h"
#include "dashboard/timeline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::dashboard {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostSpans = 600;  // spans of a rank
constexpr double kMs = 1e6;

Json json_of(const flight::Snapshot& ring, bool is_live) {
  const auto process = is_live ? read_process(ring.pid) : std::nullopt;
  const std::int64_t now = process ? flight::now_ns() : ring.last_event_ns;
  Json sections = Json::array();
  for (const auto& section : ring.sections) {
    sections.push_back(
        {{"name", section.name}, {"seconds", std::max<double>(0, static_cast<double>(now - section.since_ns) / 1e9)}});
  }
  Json lanes = Json::array();
  for (const auto& lane : ring.lanes) {
    lanes.push_back({{"group", lane.group},
                     {"name", lane.name},
                     {"started", lane.started},
                     {"finished", lane.finished},
                     {"bytes", lane.bytes},
                     {"bucket", lane.bucket},
                     {"buckets", lane.buckets},
                     {"seconds", std::max<double>(0, static_cast<double>(now - lane.started_ns) / 1e9)}});
  }
  return {{"rank", ring.rank},
          {"pid", ring.pid},
          {"host", ring.host},
          {"alive", process.has_value()},
          {"state", process ? std::string(1, process->state) : ""},
          {"step", ring.step},
          {"sections", sections},
          {"lanes", lanes},
          {"cpu", process ? process->cpu_seconds : 0},
          {"resident", process ? process->resident : 0},
          {"silent", std::max<double>(0, static_cast<double>(now - ring.last_event_ns) / 1e9)}};
}

bool is_link(const fs::path& path) {
  std::error_code problem;
  return fs::is_symlink(fs::symlink_status(path, problem));
}

struct Names {
  Json list = Json::array();
  std::map<std::string, int> places = {};

  int place(const std::string& name) {
    const auto [found, is_new] = places.try_emplace(name, static_cast<int>(places.size()));
    if (is_new) list.push_back(name);
    return found->second;
  }
};

}  // namespace

namespace fs = std::filesystem;

RingFile::~RingFile() { unmap(); }

void RingFile::unmap() {
  if (ring_ != nullptr) ::munmap(const_cast<flight::Ring*>(ring_), sizeof(flight::Ring));
  ring_ = nullptr;
  target_.clear();
}

bool RingFile::is_link() const {
  std::error_code problem;
  return fs::is_symlink(fs::symlink_status(file_, problem));
}

// Only the launcher's memory is mapped, because its size cannot change. The size of a file can.
bool RingFile::map() {
  std::error_code problem;
  const fs::path link = fs::read_symlink(file_, problem);
  if (ring_ != nullptr && target_ == link.string() && fs::exists(link, problem)) return true;
  unmap();
  try {
    const UniqueFd memory = flight::open_ring_file(file_);
    void* at = ::mmap(nullptr, sizeof(flight::Ring), PROT_READ, MAP_SHARED, memory.get(), 0);
    if (at == MAP_FAILED) return false;
    ring_ = static_cast<const flight::Ring*>(at);
    target_ = link.string();
    return true;
  } catch (const Error&) {  // the launcher is gone, or the link has a different target
    return false;
  }
}

std::optional<flight::Snapshot> RingFile::state() {
  if (!is_link()) return events();
  if (!map() || ring_->magic.load() != flight::kMagic) return std::nullopt;
  return flight::copy_state(*ring_);
}

std::optional<flight::Snapshot> RingFile::events() {
  if (is_link()) {
    if (!map() || ring_->magic.load() != flight::kMagic) return std::nullopt;
    return flight::copy_ring(*ring_);
  }
  unmap();
  std::error_code problem;
  const auto time = fs::last_write_time(file_, problem);
  if (problem) return std::nullopt;
  if (kept_ && time == kept_time_) return kept_;
  try {
    kept_ = flight::read_ring_file(file_);
    kept_time_ = time;
  } catch (const Error&) {
    kept_.reset();
  }
  return kept_;
}

std::map<int, fs::path> numbered(const fs::path& parent, const std::string& prefix) {
  std::map<int, fs::path> out;
  std::error_code problem;
  fs::directory_iterator at(parent, problem);
  for (; !problem && at != fs::directory_iterator(); at.increment(problem)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix) || name.size() > prefix.size() + 9 || is_link(at->path())) continue;
    const std::string digits = name.substr(prefix.size());
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) continue;
    out[std::stoi(digits)] = at->path();
  }
  return out;
}

fs::path logs_folder(const fs::path& run) {
  std::error_code problem;
  return fs::is_directory(fs::symlink_status(run / "logs", problem)) ? run / "logs" : run;
}

void LiveRanks::look() {
  const auto attempts = numbered(logs_folder(run_), "attempt_");
  const int newest = attempts.empty() ? -1 : attempts.rbegin()->first;
  if (newest != attempt_) rings_.clear();
  attempt_ = newest;
  if (newest < 0) return;
  for (const auto& [rank, folder] : numbered(attempts.rbegin()->second, "rank-")) {
    if (!rings_.contains(rank)) rings_[rank] = std::make_unique<RingFile>(folder / "flight.ring");
  }
}

Json LiveRanks::state() {
  look();
  Json ranks = Json::array();
  const fs::path attempt = logs_folder(run_) / fmt::format("attempt_{}", attempt_);
  for (auto& [rank, ring] : rings_) {
    const auto snapshot = ring->state();
    const bool is_live = is_link(attempt / fmt::format("rank-{}", rank) / "flight.ring");
    Json row = snapshot ? json_of(*snapshot, is_live) : Json{{"alive", false}, {"sections", Json::array()}};
    row["rank"] = rank;
    row["has_ring"] = snapshot.has_value();
    row["launched"] = is_live;
    ranks.push_back(std::move(row));
  }
  return {{"attempt", attempt_}, {"ranks", std::move(ranks)}};
}

Json LiveRanks::timeline(double seconds) {
  look();
  std::map<int, flight::Snapshot> rings;
  std::int64_t end = 0;  // on CLOCK_MONOTONIC
  for (auto& [rank, ring] : rings_) {
    auto snapshot = ring->events();
    if (!snapshot) continue;
    end = std::max(end, snapshot->last_event_ns);
    rings.emplace(rank, std::move(*snapshot));
  }
  const auto start = end - static_cast<std::int64_t>(seconds * 1e9);
  Names names;
  Json rows = Json::array();
  for (const auto& [rank, ring] : rings) {
    auto spans = spans_of(ring, start, end);
    if (spans.size() > kMostSpans) spans.erase(spans.begin(), spans.end() - static_cast<std::ptrdiff_t>(kMostSpans));
    Json list = Json::array();
    for (const TimeSpan& span : spans) {
      list.push_back({static_cast<double>(span.begin_ns - start) / kMs, static_cast<double>(span.end_ns - start) / kMs,
                      names.place(span.name), span.kind, span.step, span.bytes, span.bucket, span.depth});
    }
    rows.push_back({{"rank", rank}, {"spans", std::move(list)}});
  }
  const std::int64_t offset = rings.empty() ? 0 : rings.begin()->second.clock_offset_ns;
  return {{"start", rings.empty() ? 0.0 : static_cast<double>(start + offset) / kMs},
          {"end", seconds * 1000},
          {"names", names.list},
          {"ranks", std::move(rows)}};
}

}  // namespace lockstep::dashboard
