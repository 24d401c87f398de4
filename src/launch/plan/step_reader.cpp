// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/step_reader.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

namespace lockstep::launch {
namespace {

using schedule::CallKind;

constexpr std::string_view kEndOfBackward = "DistributedDataParallel::end_backward";
constexpr std::string_view kBackward = "backward";
constexpr std::string_view kOptimizer = "optimizer";
constexpr std::array<std::string_view, 3> kNoStep = {"evaluate", "save", "setup"};

/// A collective with both of its ends.
struct Operation {
  std::string name;
  std::int64_t bytes = 0;
  int bucket = -1;
  std::int64_t called = 0;
  std::int64_t end = 0;
  std::int64_t waited = 0;  ///< 0: nobody has
};

/// What a ring has of the group that reduces the gradients, and of the main thread's sections.
struct Record {
  std::vector<Operation> operations = {};  ///< by their number
  std::vector<const flight::Event*> sections = {};
  std::vector<const flight::Event*> queue = {};  ///< those of the sections that say how long the thread had no core
  std::int64_t first = 0;                        ///< when the oldest operation was called
};

std::optional<int> group_of_buckets(const flight::Snapshot& ring) {
  for (const flight::Event& event : ring.events) {
    if (event.what == flight::What::kCollectiveBegin && event.bucket >= 0) return event.group;
  }
  return std::nullopt;
}

Record record_of(const flight::Snapshot& ring) {
  Record record;
  const auto group = group_of_buckets(ring);
  std::map<std::uint64_t, const flight::Event*> begins;
  std::map<std::uint64_t, Operation> found;
  for (const flight::Event& event : ring.events) {
    const bool is_section = event.what == flight::What::kSectionBegin || event.what == flight::What::kSectionEnd;
    if (is_section) record.sections.push_back(&event);
    if (is_section && event.queued_ns != 0) record.queue.push_back(&event);
    if (is_section || !group || event.group != *group) continue;
    if (event.what == flight::What::kCollectiveBegin) begins[event.sequence] = &event;
    const auto begin = begins.find(event.sequence);
    if (event.what != flight::What::kCollectiveEnd || begin == begins.end()) continue;
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

/// A time of the host and the rank's own computation until then, since the step began: without the waits for
/// collectives, and without those for a core. A thread that waits for a collective is not one that could run, so that
/// between two readings it can have had no core only while it did not.
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
  /// A part of a step of whose computation `share` was spent without a core.
  struct Queue {
    std::int64_t from;
    std::int64_t to;
    double share;
  };

  void add_queue(std::int64_t from, std::int64_t to, std::int64_t queued) {
    const double free = unblocked(from, to);
    if (queued > 0 && free > 0) queues_.push_back({from, to, std::min(1.0, static_cast<double>(queued) / free)});
  }

  /// Nanoseconds between two times in which no thread waits for a collective.
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

/// The sections that begin in a step.
struct Sections {
  std::int64_t backward = 0;  ///< when it began; 0: never
  std::int64_t waiting = 0;   ///< when the gradients were all computed
  std::int64_t optimizer = 0;
  std::int64_t optimizer_end = 0;
  bool is_step = true;
};

Sections sections_of(const Record& record, std::int64_t from, std::int64_t to) {
  Sections found;
  for (const flight::Event* event : record.sections) {
    if (event->time_ns <= from || event->time_ns > to) continue;
    const bool begins = event->what == flight::What::kSectionBegin;
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
  schedule::MeasuredStep& step = found.step;
  for (const Operation& each : record.operations) {
    if (each.called <= from || each.called > to) continue;
    schedule::Call call{.kind = kind_of(each.name), .bytes = each.bytes, .bucket = each.bucket};
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

}  // namespace

std::vector<RingStep> steps_of(const flight::Snapshot& ring) {
  const Record record = record_of(ring);
  std::vector<RingStep> steps;
  std::int64_t from = 0;
  for (const flight::Event* event : record.sections) {
    if (event->what != flight::What::kSectionEnd || event->name != kEndOfBackward) continue;
    if (from != 0) {
      if (auto step = step_between(record, ring.world_size, from, event->time_ns)) steps.push_back(std::move(*step));
    }
    from = event->time_ns;
  }
  return steps;
}

}  // namespace lockstep::launch
