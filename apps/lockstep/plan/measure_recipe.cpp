// SPDX-License-Identifier: Apache-2.0
#include "lockstep/plan/measure_recipe.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/resources.h"
#include "lockstep/doctor/child.h"
#include "lockstep/launch/measured_run.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRepeats = "30";
constexpr auto kMeasureLimit = std::chrono::milliseconds(std::chrono::hours(1));

/// A new folder that is gone at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "lockstep-plan-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw_cannot(fmt::format("make the folder {}", path_), errno);
  }
  ~TemporaryFolder() {
    std::error_code problem;
    fs::remove_all(path_, problem);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The bench's line of JSON, which the launcher may have put a rank's number before.
nlohmann::json bench_line(const std::string& out) {
  const std::size_t at = out.find("{\"bench\"");
  if (at == std::string::npos) return nullptr;
  return nlohmann::json::parse(out.substr(at, out.find('\n', at) - at), nullptr, false);
}

}  // namespace

schedule::Workload measure_recipe(const std::string& recipe, int ranks) {
  const TemporaryFolder logs;
  const std::string worker = (fs::read_symlink("/proc/self/exe").parent_path() / "lockstep-worker").string();
  const ChildResult result = run_child(
      {"/proc/self/exe", "run", "--nproc-per-node", std::to_string(ranks), "--log-dir", logs.path(), "--", worker,
       "bench", "step", recipe, "--repeats", kRepeats, "--json", "--shapes", "--set", "bucket_cap_mb=1"},
      kMeasureLimit);
  if (result.code == -1) throw ResourceError(fmt::format("{} took longer than an hour to measure", recipe));
  const nlohmann::json line = bench_line(result.out);
  if (result.code != 0 || !line.is_object()) {
    throw UsageError(fmt::format("'{}' is no folder, and measuring it as a recipe failed with exit code {}:\n{}",
                                 recipe, result.code, text::for_people(result.err)),
                     "give a run folder, or a recipe as lockstep bench step takes it");
  }
  schedule::Workload workload = read_measured_run(logs.path());
  workload.images = line.value("batch", 0.0) * line.value("replicas", ranks) / ranks;
  for (const auto& shape : line.value("shapes", nlohmann::json::array())) {
    workload.shapes.push_back(shape.get<std::vector<std::int64_t>>());
  }
  return workload;
}

}  // namespace lockstep::apps
