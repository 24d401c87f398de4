// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "launch/doctor/run_files.h"
#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/flight/snapshot.h"
#include "lockstep/simulate/workload.h"
#include "lockstep/view/run_curves.h"

namespace lockstep::launch {
namespace {

// Extracts the steps from one rank's flight ring. Pure.

struct RingStep {
  simulate::MeasuredStep step;
  double seconds = 0;  ///< duration including all waits
};

using simulate::CallKind;

constexpr std::string_view kEndOfBackward = "DistributedDataParallel::end_backward";
constexpr std::string_view kBackward = "backward";
constexpr std::string_view kOptimizer = "optimizer";
constexpr std::array<std::string_view, 3> kNoStep = {"evaluate", "save", "setup"};

/// A collective with its start and end.
struct Operation {
  std::string name;
  std::int64_t bytes = 0;
  int bucket = -1;
  std::int64_t called = 0;
  std::int64_t end = 0;
  std::int64_t waited = 0;  ///< time of the first wait; 0 if no thread has waited
};

/// The ring's events from the group that reduces the gradients and from the main thread's sections.
struct Record {
  std::vector<Operation> operations = {};  ///< collectives by their number
  std::vector<const flight::Event*> sections = {};
  std::vector<const flight::Event*> queue = {};  ///< how long the thread went without a core in each section
  std::int64_t first = 0;                        ///< when the oldest operation was called
};

std::optional<int> group_of_buckets(const flight::Snapshot& ring) {
  for (const flight::Event& event : ring.events) {
    if (event.type == flight::EventType::kCollectiveBegin && event.bucket >= 0) return event.group;
  }
  return std::nullopt;
}

Record record_of(const flight::Snapshot& ring) {
  Record record;
  const auto group = group_of_buckets(ring);
  std::map<std::uint64_t, const flight::Event*> begins;
  std::map<std::uint64_t, Operation> found;
  for (const flight::Event& event : ring.events) {
    const bool is_section =
        event.type == flight::EventType::kSectionBegin || event.type == flight::EventType::kSectionEnd;
    if (is_section) record.sections.push_back(&event);
    if (is_section && event.queued_ns != 0) record.queue.push_back(&event);
    if (is_section || !group || event.group != *group) continue;
    if (event.type == flight::EventType::kCollectiveBegin) begins[event.sequence] = &event;
    const auto begin = begins.find(event.sequence);
    if (event.type != flight::EventType::kCollectiveEnd || begin == begins.end()) continue;
    const flight::Event& from = *begin->second;
    found[event.sequence] = {.name = from.name,
                             .bytes = static_cast<std::int64_t>(from.bytes),
                             .bucket = from.bucket,
                             .called = from.called_ns != 0 ? from.called_ns : from.time_ns,
                             .end = event.time_ns,
                             .waited = event.waited_ns};
  }
  for (auto& [number, operation] : found) record.operations.push_back(std::move(operation));
  if (!record.operations.empty()) record.first = record.operations.front().called;
  return record;
}

/// Maps a host time to the rank's own computation time since the step began, excluding waits for collectives or for a
/// core. A thread that waits for a collective needs no core, so between two readings it can have lacked a core only
/// while it was not waiting.
class OwnTime {
 public:
  OwnTime(const Record& record, std::int64_t from, std::int64_t to) : from_(from), to_(to) {
    for (const Operation& each : record.operations) {
      if (each.waited == 0 || each.waited >= to || each.end <= from) continue;
      waits_.push_back({std::max(each.waited, from), std::min(each.end, to)});
    }
    std::sort(waits_.begin(), waits_.end());
    std::int64_t time = from;
    for (std::size_t i = 1; i < record.queue.size(); ++i) {
      const flight::Event& reading = *record.queue[i];
      if (reading.time_ns <= from || reading.time_ns > to) continue;
      add_queue(time, reading.time_ns, reading.queued_ns - record.queue[i - 1]->queued_ns);
      time = reading.time_ns;
    }
  }

  [[nodiscard]] double at(std::int64_t time) const {
    time = std::clamp(time, from_, to_);
    double own = unblocked(from_, time);
    for (const Queue& part : queues_) {
      if (part.from < time) own -= part.share * unblocked(part.from, std::min(part.to, time));
    }
    return own * 1e-9;
  }

 private:
  /// A part of a step; the thread lacked a core for `share` of its computation.
  struct Queue {
    std::int64_t from;
    std::int64_t to;
    double share;
  };

  void add_queue(std::int64_t from, std::int64_t to, std::int64_t queued) {
    const double free = unblocked(from, to);
    if (queued > 0 && free > 0) queues_.push_back({from, to, std::min(1.0, static_cast<double>(queued) / free)});
  }

  /// Returns the nanoseconds between two times during which no thread was waiting for a collective.
  [[nodiscard]] double unblocked(std::int64_t from, std::int64_t to) const {
    std::int64_t blocked = 0;
    std::int64_t until = from;
    for (const auto& [begin, end] : waits_) {
      const std::int64_t first = std::max(begin, until);
      const std::int64_t last = std::min(end, to);
      if (last > first) blocked += last - first;
      until = std::max(until, end);
    }
    return static_cast<double>(to - from - blocked);
  }

  std::int64_t from_;
  std::int64_t to_;
  std::vector<std::pair<std::int64_t, std::int64_t>> waits_;
  std::vector<Queue> queues_;
};

CallKind kind_of(std::string_view name) {
  if (name == "all_reduce") return CallKind::kAllReduce;
  if (name == "reduce_scatter" || name == "reduce") return CallKind::kReduceScatter;
  if (name == "broadcast" || name == "scatter") return CallKind::kBroadcast;
  if (name == "barrier") return CallKind::kBarrier;
  return CallKind::kAllGather;
}

/// The times of a step's sections.
struct Sections {
  std::int64_t backward = 0;  ///< start of backward; 0 if none
  std::int64_t waiting = 0;   ///< when all gradients had been computed
  std::int64_t optimizer = 0;
  std::int64_t optimizer_end = 0;
  bool is_step = true;
};

Sections sections_of(const Record& record, std::int64_t from, std::int64_t to) {
  Sections found;
  for (const flight::Event* event : record.sections) {
    if (event->time_ns <= from || event->time_ns > to) continue;
    const bool begins = event->type == flight::EventType::kSectionBegin;
    if (begins && event->name == kBackward) found.backward = event->time_ns;
    if (begins && event->name == kEndOfBackward) found.waiting = event->time_ns;
    if (event->name == kOptimizer) (begins ? found.optimizer : found.optimizer_end) = event->time_ns;
    if (std::find(kNoStep.begin(), kNoStep.end(), event->name) != kNoStep.end()) found.is_step = false;
  }
  return found;
}

std::optional<RingStep> step_between(const Record& record, int ranks, std::int64_t from, std::int64_t to) {
  const Sections sections = sections_of(record, from, to);
  if (!sections.is_step || sections.waiting == 0 || record.first > from) return std::nullopt;
  const OwnTime own(record, from, to);
  RingStep found{.step = {.compute_s = own.at(to)}, .seconds = static_cast<double>(to - from) * 1e-9};
  simulate::MeasuredStep& step = found.step;
  for (const Operation& each : record.operations) {
    if (each.called <= from || each.called > to) continue;
    simulate::Call call{.kind = kind_of(each.name), .bytes = each.bytes, .bucket = each.bucket};
    if (call.kind == CallKind::kAllGather) call.bytes *= ranks;
    call.called_s = own.at(each.called);
    if (call.bucket >= 0) {
      call.waited_s = std::max(call.called_s, own.at(sections.waiting));
    } else if (each.waited != 0 && each.waited <= to) {
      call.waited_s = std::max(call.called_s, own.at(each.waited));
    }
    step.calls.push_back(call);
  }
  const auto bucket =
      std::find_if(step.calls.begin(), step.calls.end(), [](const auto& call) { return call.bucket >= 0; });
  if (bucket == step.calls.end()) return std::nullopt;
  step.backward_s = sections.backward != 0 ? std::min(own.at(sections.backward), bucket->called_s) : bucket->called_s;
  if (sections.optimizer != 0 && sections.optimizer_end > sections.optimizer) {
    step.optimizer_end_s = own.at(sections.optimizer_end);
    step.optimizer_s = step.optimizer_end_s - own.at(sections.optimizer);
  }
  return found;
}

/// Returns the steps of a ring, oldest first. Steps with an evaluation or a save are skipped, as are steps whose
/// collectives are no longer complete in the ring.
std::vector<RingStep> steps_of(const flight::Snapshot& ring) {
  const Record record = record_of(ring);
  std::vector<RingStep> steps;
  std::int64_t from = 0;
  for (const flight::Event* event : record.sections) {
    if (event->type != flight::EventType::kSectionEnd || event->name != kEndOfBackward) continue;
    if (from != 0) {
      if (auto step = step_between(record, ring.world_size, from, event->time_ns)) steps.push_back(std::move(*step));
    }
    from = event->time_ns;
  }
  return steps;
}

}  // namespace
}  // namespace lockstep::launch

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using launch::RingStep;

constexpr std::size_t kWarmup = 3;  // number of initial steps of a rank to skip
constexpr std::size_t kEnough = 8;  // if a rank has more steps, the earliest are skipped
constexpr const char* kRing = "flight.ring";

using Signature = std::vector<std::tuple<simulate::CallKind, std::int64_t, int>>;

Signature signature_of(const RingStep& step) {
  Signature signature;
  for (const simulate::Call& call : step.step.calls) signature.emplace_back(call.kind, call.bytes, call.bucket);
  return signature;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<fs::path> rings_of(const fs::path& path) {
  std::error_code problem;
  for (const fs::path& logs : {path / "logs", path}) {
    const auto attempts = launch::numbered_folders(logs, "attempt_");
    for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
      std::vector<fs::path> rings;
      for (const auto& [rank, folder] : launch::numbered_folders(attempt->second, "rank-")) {
        if (fs::exists(folder / kRing, problem)) rings.push_back(folder / kRing);
      }
      if (!rings.empty()) return rings;
    }
  }
  throw DataError(fmt::format("{} has no flight ring", path.string()),
                  "pass the folder of a run started by lockstep run or lockstep train --nproc-per-node, or its logs");
}

double setting(const ConfigTree& tree, const std::string& key, double missing) {
  const auto found = tree.values().find(key);
  return found == tree.values().end() ? missing : text::parse_number(found->second.yaml).value_or(missing);  // "auto"
}

/// Returns how many images one rank processes in one step: batch_size times its replicas and accumulated batches. 0
/// means unknown.
double images_of_settings(const fs::path& file, int ranks) {
  try {
    const ConfigTree tree = ConfigTree::from_file(file);
    const double replicas = setting(tree, "replicas", 0);
    return setting(tree, "batch_size", 0) * (replicas > 0 ? replicas / ranks : 1) *
           setting(tree, "accumulate_steps", 1);
  } catch (const Error&) {
    return 0;
  }
}

double images_of_log(const fs::path& folder, const simulate::Workload& workload) {
  try {
    const view::RunCurves curves = view::read_run_curves(folder);
    const auto found = curves.steps.find("images_per_s");
    if (found == curves.steps.end() || found->second.empty()) return 0;
    std::vector<double> rates;
    for (const view::CurvePoint& point : found->second) rates.push_back(point.value);
    return median(std::move(rates)) * workload.measured_s / workload.ranks;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

simulate::Workload workload_of(const std::vector<flight::Snapshot>& ranks) {
  simulate::Workload workload{.ranks_per_machine = static_cast<int>(ranks.size())};
  std::vector<RingStep> all;
  for (const flight::Snapshot& ring : ranks) {
    workload.ranks = std::max(workload.ranks, ring.world_size);
    std::vector<RingStep> steps = launch::steps_of(ring);
    if (steps.size() > kEnough) steps.erase(steps.begin(), steps.begin() + kWarmup);
    std::move(steps.begin(), steps.end(), std::back_inserter(all));
  }
  std::map<Signature, std::size_t> counts;
  for (const RingStep& step : all) ++counts[signature_of(step)];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end()) {
    throw DataError("the flight rings have no complete step with gradient buckets",
                    "the run needs at least two ranks on CPUs, and a few steps since its last evaluation");
  }
  std::vector<double> seconds;
  for (RingStep& step : all) {
    if (signature_of(step) != most->first) continue;
    seconds.push_back(step.seconds);
    workload.steps.push_back(std::move(step.step));
  }
  workload.measured_s = median(std::move(seconds));
  return workload;
}

simulate::Workload read_measured_run(const std::string& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) {
    throw DataError(fmt::format("{} is not a folder", path), "pass a run folder (runs/NAME) or a log folder");
  }
  std::vector<flight::Snapshot> rings;
  for (const fs::path& file : rings_of(path)) rings.push_back(flight::read_ring_file(file));
  if (rings.front().world_size < 2) {
    throw UsageError(fmt::format("{} is a run of one rank, which does not reduce gradients", path),
                     "measure with two ranks: lockstep train RECIPE --nproc-per-node 2");
  }
  simulate::Workload workload = workload_of(rings);
  workload.images = images_of_settings(fs::path(path) / "config.yml", workload.ranks);
  if (workload.images == 0) workload.images = images_of_log(path, workload);
  return workload;
}

}  // namespace lockstep
