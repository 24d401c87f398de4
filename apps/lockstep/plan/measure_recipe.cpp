// SPDX-License-Identifier: Apache-2.0
#include "lockstep/plan/plan.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/temporary_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/resources.h"
#include "lockstep/flight/snapshot.h"
#include "lockstep/launch/child.h"
#include "lockstep/launch/measured_run.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRepeats = "30";
constexpr std::size_t kWarmup = 4;  // steps
constexpr auto kMeasureLimit = std::chrono::milliseconds(std::chrono::hours(1));

/// The bench's JSON line, without the rank number that a launcher puts before it.
nlohmann::json bench_line(const std::string& out) {
  const std::size_t at = out.find("{\"bench\"");
  if (at == std::string::npos) return nullptr;
  return json_or_null(out.substr(at, out.find('\n', at) - at));
}

/// The parameters of a benchmark of a recipe.
struct BenchRequest {
  std::string recipe;
  int ranks = 1;
  std::int64_t batch = 0;     ///< 0: the recipe's own
  std::int64_t replicas = 0;  ///< replicas of all ranks; 0: the recipe's own
};

std::vector<std::string> bench_words(const BenchRequest& request, const std::string& logs) {
  const std::string worker = (fs::read_symlink("/proc/self/exe").parent_path() / "lockstep-worker").string();
  std::vector<std::string> words = {"/proc/self/exe",
                                    "run",
                                    "--nproc-per-node",
                                    std::to_string(request.ranks),
                                    "--log-dir",
                                    logs,
                                    "--",
                                    worker,
                                    "bench",
                                    "step",
                                    request.recipe,
                                    "--repeats",
                                    kRepeats,
                                    "--json",
                                    "--shapes",
                                    "--set",
                                    "bucket_cap_mb=1"};
  if (request.batch > 0) words.insert(words.end(), {"--batch", std::to_string(request.batch)});
  if (request.replicas > 0) words.insert(words.end(), {"--replicas", std::to_string(request.replicas)});
  return words;
}

/// Returns `text` without the lines that name `folder`. The launcher names its log folder, which is removed at the end.
std::string without_lines_of(const std::string& text, const std::string& folder) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    if (line.find(folder) == std::string::npos) kept += line;
    at = end;
  }
  return kept;
}

/// Runs the bench to completion and returns its JSON line.
nlohmann::json bench(const BenchRequest& request, const std::string& logs) {
  const ChildResult result = run_child(bench_words(request, logs), kMeasureLimit);
  if (result.code == -1) throw ResourceError(fmt::format("{} took longer than an hour to measure", request.recipe));
  nlohmann::json line = bench_line(result.out);
  if (result.code != 0 || !line.is_object()) {
    throw UsageError(fmt::format("'{}' is not a folder, and measuring it as a recipe failed with exit code {}:\n{}",
                                 request.recipe, result.code, text::for_people(without_lines_of(result.err, logs))),
                     "pass a run folder, or a recipe that lockstep bench step accepts");
  }
  return line;
}

/// The median time of a rank's steps. A step lasts from the end of one synchronized backward to the end of the next;
/// the time its main thread waited for a core is subtracted. The first steps are warm-up. 0: the ring has no steps.
double step_of_ring(const fs::path& logs) {
  std::vector<const flight::Event*> ends;
  flight::Snapshot ring;
  for (const auto& entry : fs::recursive_directory_iterator(logs)) {
    if (entry.path().filename() == "flight.ring") ring = flight::read_ring_file(entry.path());
  }
  for (const flight::Event& event : ring.events) {
    const bool is_end = event.type == flight::EventType::kSectionEnd;
    if (is_end && event.name == "DistributedDataParallel::end_backward") ends.push_back(&event);
  }
  std::vector<double> seconds;
  for (std::size_t i = kWarmup; i < ends.size(); ++i) {
    const std::int64_t took = ends[i]->time_ns - ends[i - 1]->time_ns;
    seconds.push_back(static_cast<double>(took - (ends[i]->queued_ns - ends[i - 1]->queued_ns)) * 1e-9);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds.empty() ? 0 : seconds[seconds.size() / 2];
}

}  // namespace

MeasuredRecipe measure_recipe(const std::string& recipe, int ranks, std::int64_t batch) {
  const TemporaryFolder logs("lockstep-plan");
  const nlohmann::json line = bench({.recipe = recipe, .ranks = ranks, .batch = batch}, logs.path());
  const std::int64_t replicas = line.value("replicas", std::int64_t{ranks}) / ranks;  // replicas of a rank
  MeasuredRecipe found{.workload = read_measured_run(logs.path())};
  found.workload.images = line.value("batch", 0.0) * static_cast<double>(replicas);
  for (const auto& shape : line.value("shapes", nlohmann::json::array())) {
    found.workload.shapes.push_back(shape.get<std::vector<std::int64_t>>());
  }
  const TemporaryFolder lone("lockstep-plan");
  (void)bench({.recipe = recipe, .batch = batch, .replicas = replicas}, lone.path());
  found.alone_s = step_of_ring(lone.path());
  return found;
}

}  // namespace lockstep::apps
