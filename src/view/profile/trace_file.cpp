// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/trace_file.h"

#include <fmt/format.h>

#include <set>

#include "lockstep/base/number.h"
#include "lockstep/base/text.h"

namespace lockstep::view {
namespace {

// Linux never gives a thread this number.
constexpr std::int64_t kCollectiveTrack = 1'000'000'000;

const char* category_of(const ProfiledCall& call) {
  switch (call.kind) {
    case CallKind::kOperator:
      return "operator";
    case CallKind::kBackwardNode:
      return "backward";
    case CallKind::kEngine:
      return "engine";
    case CallKind::kSection:
      return "section";
    case CallKind::kCollective:
      return "collective";
  }
  return "";
}

/// Returns microseconds with all digits of the nanoseconds.
std::string micros(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

/// Writes the events, one per line.
class TraceWriter {
 public:
  explicit TraceWriter(const Profile& profile) : profile_(profile) {}

  std::string write() {
    out_ = fmt::format(
        "{{\"displayTimeUnit\": \"ms\",\n\"otherData\": {{\"rank\": {}, \"world_size\": {}, \"host\": {}, \"steps\": "
        "{}, "
        "\"clock_offset_ns\": {}, \"clock_error_ns\": {}}},\n\"traceEvents\": [",
        profile_.rank, profile_.world_size, text::json_quote(profile_.host), profile_.steps, profile_.clock_offset_ns,
        profile_.clock_error_ns);
    names();
    for (const ProfiledCall& call : profile_.calls) {
      if (call.kind == CallKind::kCollective) {
        collective(call);
      } else {
        plain(call);
      }
    }
    return out_ + "\n]}\n";
  }

 private:
  void names() {
    name("process_name", 0, fmt::format("rank {} ({})", profile_.rank, profile_.host));
    out_ += fmt::format(
        ",\n{{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": {}, \"args\": {{\"sort_index\": {}}}}}",
        profile_.rank, profile_.rank);
    for (const ProfiledThread& thread : profile_.threads) name("thread_name", thread.id, thread.name);
    std::set<int> groups;
    for (const ProfiledCall& call : profile_.calls) {
      if (call.kind == CallKind::kCollective) groups.insert(call.group);
    }
    for (const int group : groups) {
      name("thread_name", kCollectiveTrack + group,
           groups.size() == 1 ? "collectives" : fmt::format("collectives of group {}", group));
    }
  }

  void name(const char* property, std::int64_t track, const std::string& value) {
    out_ += fmt::format("{}{{\"ph\": \"M\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, \"args\": {{\"name\": {}}}}}",
                        is_first_ ? "\n" : ",\n", property, profile_.rank, track, text::json_quote(value));
    is_first_ = false;
  }

  void event(const ProfiledCall& call, std::int64_t track, const std::string& title, const std::string& arguments) {
    out_ += fmt::format(
        ",\n{{\"ph\": \"X\", \"name\": {}, \"cat\": \"{}\", \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, "
        "\"args\": "
        "{{{}}}}}",
        text::json_quote(title), category_of(call), profile_.rank, track, micros(call.begin_ns),
        micros(call.end_ns - call.begin_ns), arguments);
  }

  void collective(const ProfiledCall& call) {
    const std::string title =
        call.bucket < 0 ? call.name : fmt::format("{} bucket {} of {}", call.name, call.bucket, call.buckets);
    event(
        call, kCollectiveTrack + call.group, title,
        fmt::format("\"bucket\": {}, \"bytes\": {}, \"sequence\": {}, \"thread\": {}", call.bucket, call.bytes,
                    call.sequence, text::json_quote(profile_.threads.at(static_cast<std::size_t>(call.thread)).name)));
  }

  void plain(const ProfiledCall& call) {
    std::vector<std::string> arguments;
    if (!call.layer.empty()) arguments.push_back(fmt::format("\"layer\": {}", text::json_quote(call.layer)));
    if (call.bytes > 0) arguments.push_back(fmt::format("\"bytes\": {}", call.bytes));
    if (call.flops > 0) arguments.push_back(fmt::format("\"flop\": {}", text::json_number(call.flops, 0)));
    event(call, profile_.threads.at(static_cast<std::size_t>(call.thread)).id,
          call.layer.empty() ? call.name : fmt::format("{} {}", call.layer, call.name), text::join(arguments));
  }

  const Profile& profile_;
  std::string out_;
  bool is_first_ = true;
};

}  // namespace

std::string trace_text(const Profile& profile) { return TraceWriter(profile).write(); }

std::string trace_file_name(int rank) { return fmt::format("rank-{}.json", rank); }

}  // namespace lockstep::view
