// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/view/trace_file.h"

namespace lockstep::view {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// An event takes 256 bytes and about 20 values.
constexpr JsonLimits kTraceLimits{.bytes = 1U << 30U, .values = 100'000'000};

struct RankTrace {
  int rank = 0;
  int world_size = 1;
  std::string host;
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = 0;
  OrderedJson events;
};

DataError torn(const fs::path& file, const std::string& why) {
  return DataError(fmt::format("{} is not a complete trace of a rank: {}", file.string(), why),
                   "profile the run again: --profile N writes the trace of every rank");
}

RankTrace read_rank(FileSystem& files, const fs::path& file) {
  try {
    const OrderedJson json = parse_ordered_json(files.read(file, kTraceLimits.bytes), kTraceLimits);
    const OrderedJson& about = json.at("otherData");
    RankTrace found{.rank = about.at("rank"),
                    .world_size = about.at("world_size"),
                    .host = about.at("host"),
                    .offset_ns = about.at("clock_offset_ns"),
                    .error_ns = about.at("clock_error_ns"),
                    .events = json.at("traceEvents")};
    if (!found.events.is_array()) throw torn(file, "its traceEvents is not a list");
    return found;
  } catch (const JsonError& error) {
    throw torn(file, error.why() == JsonError::kNoJson ? "its JSON ends too early or is broken" : error.message());
  } catch (const OrderedJson::exception& error) {
    throw torn(file, error.what());
  }
}

/// Reads the files of all ranks; the first file states how many there are.
std::vector<RankTrace> read_all(FileSystem& files, const fs::path& folder) {
  std::vector<RankTrace> ranks;
  std::vector<std::string> missing;
  int world_size = 1;
  for (const std::string& name : files.list(folder)) {
    if (!name.starts_with("rank-") || !name.ends_with(".json")) continue;
    world_size = read_rank(files, folder / name).world_size;
    break;
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const fs::path file = folder / trace_file_name(rank);
    if (!files.exists(file)) {
      missing.push_back(std::to_string(rank));
      continue;
    }
    ranks.push_back(read_rank(files, file));
    if (ranks.back().rank != rank || ranks.back().world_size != world_size) {
      throw torn(file, fmt::format("it is from rank {} of {}, but the others are from a run of {} ranks",
                                   ranks.back().rank, ranks.back().world_size, world_size));
    }
  }
  if (ranks.empty()) {
    throw DataError(fmt::format("there is no trace of a rank in {}", folder.string()),
                    "lockstep train RECIPE --profile 10 --run-dir RUN_DIR writes them");
  }
  if (!missing.empty()) {
    throw DataError(
        fmt::format("{} has {} of {} traces: rank{} {} missing", folder.string(), ranks.size(), world_size,
                    missing.size() == 1 ? "" : "s", text::join(missing) + (missing.size() == 1 ? " is" : " are")),
        "each host keeps the traces of its ranks: copy them into this folder");
  }
  return ranks;
}

double error_us(const RankTrace& rank) { return static_cast<double>(rank.error_ns) / 1000; }

bool has_time(const OrderedJson& event) { return event.contains("ts") && event["ts"].is_number(); }

/// Shifts the events to rank 0's clock, with the first event at 0.
void shift(std::vector<RankTrace>& ranks) {
  double first = std::numeric_limits<double>::infinity();
  for (RankTrace& rank : ranks) {
    for (OrderedJson& event : rank.events) {
      if (!has_time(event)) continue;
      event["ts"] = event["ts"].get<double>() - static_cast<double>(rank.offset_ns) / 1000;
      first = std::min(first, event["ts"].get<double>());
    }
  }
  for (RankTrace& rank : ranks) {
    for (OrderedJson& event : rank.events) {
      // Digits below the nanosecond are rounding errors.
      if (has_time(event))
        event["ts"] = static_cast<double>(std::llround((event["ts"].get<double>() - first) * 1000)) / 1000;
    }
  }
}

}  // namespace

MergedTrace merge_traces(FileSystem& files, const fs::path& run_dir) {
  std::vector<RankTrace> ranks = read_all(files, run_dir / "trace");
  shift(ranks);
  MergedTrace merged{.ranks = static_cast<int>(ranks.size())};
  std::set<std::string> hosts;
  std::string out = "{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [";
  bool is_first = true;
  for (const RankTrace& rank : ranks) {
    hosts.insert(rank.host);
    merged.error_us = std::max(merged.error_us, error_us(rank));
    for (const OrderedJson& event : rank.events) {
      out += is_first ? "\n" : ",\n";
      out += event.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
      is_first = false;
    }
  }
  merged.hosts = static_cast<int>(hosts.size());
  merged.text = out + "\n]}\n";
  return merged;
}

}  // namespace lockstep::view
