// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "launch/doctor/run_files.h"
#include "launch/plan/step_reader.h"
#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/view/run_curves.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using launch::RingStep;

constexpr std::size_t kWarmup = 3;  // steps of a rank
constexpr std::size_t kEnough = 8;  // steps of a rank: with more, the first are left out
constexpr const char* kRing = "flight.ring";

using Signature = std::vector<std::tuple<schedule::CallKind, std::int64_t, int>>;

Signature signature_of(const RingStep& step) {
  Signature signature;
  for (const schedule::Call& call : step.step.calls) signature.emplace_back(call.kind, call.bytes, call.bucket);
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
                  "give the folder of a run that lockstep run or lockstep train --nproc-per-node started, or its logs");
}

double setting(const ConfigTree& tree, const std::string& key, double missing) {
  const auto found = tree.values().find(key);
  return found == tree.values().end() ? missing : text::parse_number(found->second.yaml).value_or(missing);  // "auto"
}

/// The images of one rank in one step: batch_size, for each of its replicas and batches. 0: unknown.
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

double images_of_log(const fs::path& folder, const schedule::Workload& workload) {
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

schedule::Workload workload_of(const std::vector<flight::Snapshot>& ranks) {
  schedule::Workload workload{.ranks_per_machine = static_cast<int>(ranks.size())};
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
    throw DataError("the flight rings have no whole step with gradient buckets",
                    "the run needs two ranks or more on CPUs, and some steps since its last evaluation");
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

schedule::Workload read_measured_run(const std::string& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) {
    throw DataError(fmt::format("{} is no folder", path), "give a run folder (runs/NAME), or a folder of logs");
  }
  std::vector<flight::Snapshot> rings;
  for (const fs::path& file : rings_of(path)) rings.push_back(flight::read_ring_file(file));
  if (rings.front().world_size < 2) {
    throw UsageError(fmt::format("{} is a run of one rank, which reduces no gradients", path),
                     "measure with two ranks: lockstep train RECIPE --nproc-per-node 2");
  }
  schedule::Workload workload = workload_of(rings);
  workload.images = images_of_settings(fs::path(path) / "config.yml", workload.ranks);
  if (workload.images == 0) workload.images = images_of_log(path, workload);
  return workload;
}

}  // namespace lockstep
