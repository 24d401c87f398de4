// SPDX-License-Identifier: Apache-2.0
#include "worker/inspect/inspect.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/doctor.h"
#include "lockstep/view/table.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;
using flight::EventType;
using flight::Snapshot;

constexpr const char* kRing = "flight.ring";

// The number after `prefix` in a folder's name; -1 if there is none.
int number_of(const fs::path& path, std::string_view prefix) {
  const std::string name = path.filename().string();
  int number = -1;
  if (name.rfind(prefix, 0) != 0) return -1;
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + prefix.size(), end, number);
  return read.ptr == end ? number : -1;
}

// The numbered folders by number.
std::map<int, fs::path> folders(const fs::path& parent, std::string_view prefix) {
  std::map<int, fs::path> found;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(parent, problem)) {
    if (const int number = number_of(entry.path(), prefix); number >= 0) found[number] = entry.path();
  }
  return found;
}

std::vector<fs::path> rings_of_attempt(const fs::path& attempt) {
  std::vector<fs::path> rings;
  for (const auto& [rank, folder] : folders(attempt, "rank-")) {
    if (fs::exists(folder / kRing)) rings.push_back(folder / kRing);
  }
  return rings;
}

std::string collective_text(const std::string& name, std::uint64_t number, int bucket, int buckets) {
  const std::string of = bucket < 0 ? "" : fmt::format(" (bucket {} of {})", bucket + 1, buckets);
  return fmt::format("{} {}{}", name, number, of);
}

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

std::int64_t newest_of(const std::vector<Snapshot>& ranks) {
  std::int64_t newest = 0;
  for (const Snapshot& rank : ranks) {
    if (!rank.events.empty()) newest = std::max(newest, rank.events.back().time_ns + rank.clock_offset_ns);
  }
  return newest;
}

std::string event_text(const flight::Event& event) {
  switch (event.type) {
    case EventType::kCollectiveBegin:
      return collective_text(event.name, event.sequence, event.bucket, event.buckets) + " begins";
    case EventType::kCollectiveEnd:
      return collective_text(event.name, event.sequence, event.bucket, event.buckets) + " ends";
    case EventType::kCollectiveFailed:
      return collective_text(event.name, event.sequence, event.bucket, event.buckets) + " fails";
    case EventType::kSectionBegin:
      return event.name + " begins";
    case EventType::kSectionEnd:
      return event.name + " ends";
    case EventType::kNone:
      break;
  }
  return "?";
}

struct Of {
  const Snapshot* rank = nullptr;
  const flight::Event* event = nullptr;

  [[nodiscard]] std::int64_t time() const { return event->time_ns + rank->clock_offset_ns; }
};

std::vector<Of> all_events(const std::vector<Snapshot>& ranks) {
  std::vector<Of> all;
  for (const Snapshot& rank : ranks) {
    for (const flight::Event& event : rank.events) all.push_back({&rank, &event});
  }
  std::stable_sort(all.begin(), all.end(), [](const Of& a, const Of& b) { return a.time() < b.time(); });
  return all;
}

bool runs(const std::vector<Snapshot>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const Snapshot& rank) { return ::kill(rank.pid, 0) == 0; });
}

}  // namespace

std::vector<fs::path> find_rings(const fs::path& path) {
  if (fs::is_regular_file(path)) return {path};
  if (fs::exists(path / kRing)) return {path / kRing};
  for (const fs::path& logs : {path, logs_of_run(path)}) {
    if (logs.empty()) continue;
    auto rings = rings_of_attempt(logs);
    const auto attempts = folders(logs, "attempt_");
    for (auto attempt = attempts.rbegin(); rings.empty() && attempt != attempts.rend(); ++attempt) {
      rings = rings_of_attempt(attempt->second);
    }
    if (!rings.empty()) return rings;
  }
  throw DataError(fmt::format("{} has no flight ring", path.string()),
                  "pass a run folder, or the folder that lockstep run prints as logs; ranks started by another "
                  "launcher have no ring");
}

std::string state_text(const std::vector<Snapshot>& ranks, std::int64_t now_ns) {
  const std::int64_t newest = newest_of(ranks);
  std::string text;
  for (const Snapshot& rank : ranks) {
    const std::int64_t now = now_ns != 0 ? now_ns : newest - rank.clock_offset_ns;
    text += fmt::format("rank {} (pid {} on {})", rank.rank, rank.pid, rank.host);
    if (rank.step >= 0) text += fmt::format(", step {}", rank.step);
    if (!rank.sections.empty()) {
      const flight::Section& section = rank.sections.back();
      text += fmt::format(", in {} for {:.3f} s", section.name, seconds(now - section.since_ns));
    }
    for (const flight::Lane& lane : rank.lanes) {
      if (!lane.is_running()) continue;
      text += fmt::format(", waiting in {} for {:.3f} s",
                          collective_text(lane.name, lane.started, lane.bucket, lane.buckets),
                          seconds(now - lane.started_ns));
    }
    text += "\n";
  }
  return text;
}

std::string events_text(const std::vector<Snapshot>& ranks, std::size_t count) {
  std::vector<Of> all = all_events(ranks);
  if (all.size() > count) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(count));
  if (all.empty()) return "no events\n";
  std::map<std::tuple<int, int, std::uint64_t>, std::int64_t> began;
  std::vector<std::vector<std::string>> rows;
  const std::int64_t newest = all.back().time();
  for (const Of& of : all) {
    const std::tuple key(of.rank->rank, of.event->group, of.event->sequence);
    std::string took;
    if (of.event->type == EventType::kCollectiveBegin) began[key] = of.time();
    if (of.event->type == EventType::kCollectiveEnd && began.count(key) != 0) {
      took = fmt::format("{:.3f}", seconds(of.time() - began[key]) * 1e3);
    }
    rows.push_back({fmt::format("{:.3f}", seconds(of.time() - newest) * 1e3), std::to_string(of.rank->rank),
                    of.event->step < 0 ? "" : std::to_string(of.event->step), event_text(*of.event),
                    of.event->bytes == 0 ? "" : text::bytes(of.event->bytes), took});
  }
  return view::render_table({{.title = "ms"},
                             {.title = "rank"},
                             {.title = "step"},
                             {.title = "event", .align = view::Align::kLeft},
                             {.title = "size"},
                             {.title = "took ms"}},
                            rows);
}

std::string events_json(const std::vector<Snapshot>& ranks) {
  std::string text;
  for (const Of& of : all_events(ranks)) {
    const flight::Event& event = *of.event;
    text += fmt::format(R"({{"time_ns": {}, "rank": {}, "host": {}, "number": {}, "event": "{}", "name": {}, )"
                        R"("sequence": {}, "group": {}, "bucket": {}, "buckets": {}, "bytes": {}, "step": {}, )"
                        R"("queued_ns": {}}})"
                        "\n",
                        of.time(), of.rank->rank, text::json_quote(of.rank->host), event.number,
                        event.type == EventType::kCollectiveBegin || event.type == EventType::kSectionBegin ? "begin"
                        : event.type == EventType::kCollectiveFailed                                        ? "fail"
                                                                                                            : "end",
                        text::json_quote(event.name), event.sequence, event.group, event.bucket, event.buckets,
                        event.bytes, event.step, event.queued_ns);
  }
  return text;
}

int inspect_flight(const Arguments& arguments) {
  std::string path;
  std::size_t count = 40;
  bool json = false;
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep inspect flight",
                .description = "Show what each rank of a run did last, whether it is running, hanging or was killed.",
                .examples = {"lockstep inspect flight runs/digits", "lockstep inspect flight runs/digits --last 200"}});
  app.add_option("RUN_DIR", path, "a run folder, a folder of logs, or a flight.ring file")->required();
  app.add_option("--last", count, "number of events to print, across all ranks")
      ->check(cli::whole({1, 100'000'000}))
      ->type_name("N");
  app.add_flag("--json", json, "print one JSON object per event, each on its own line");
  if (!cli::parse(app, arguments)) return 0;
  std::vector<Snapshot> ranks;
  for (const fs::path& ring : find_rings(path)) ranks.push_back(flight::read_ring_file(ring));
  if (json) {
    cli::print_json(events_json(ranks));
    return 0;
  }
  cli::print(state_text(ranks, runs(ranks) ? flight::now_ns() : 0) + "\n" + events_text(ranks, count));
  return 0;
}

}  // namespace lockstep::worker
