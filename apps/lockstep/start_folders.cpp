// SPDX-License-Identifier: Apache-2.0
#include "start_folders.h"

#include <array>
#include <filesystem>
#include <string_view>

#include "captioning/start_words.h"
#include "common/cli.h"
#include "detection/start_words.h"
#include "lockstep/base/config.h"
#include "lockstep/base/error.h"
#include "segmentation/start_words.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using ::lockstep::common::StartWords;

constexpr std::array kRecipes = {captioning::kStartWords, detection::kStartWords, segmentation::kStartWords};

// The last value of --KEY X, --KEY=X, --set KEY=X and -u KEY=X; empty: none.
std::string typed(std::string_view key, const Words& arguments) {
  const std::string option = cli::with_dashes("--" + std::string(key));
  const std::string start = std::string(key) + "=";
  std::string found;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::string dashed = cli::with_dashes(word);
    const std::string_view assignment = std::string_view(word).substr(word.starts_with("--set=") ? 6 : 0);
    if (dashed == option && i + 1 < arguments.size()) {
      found = arguments[i + 1];
    } else if (dashed.starts_with(option + "=")) {
      found = dashed.substr(option.size() + 1);
    } else if (assignment.starts_with(start)) {
      found = std::string(assignment.substr(start.size()));
    }
  }
  return found;
}

// The value in a settings file; empty if the file lacks the key or is not a settings file.
std::string in_file(std::string_view key, const std::string& file) {
  if (!file.ends_with(".yml") && !file.ends_with(".yaml")) return "";
  try {
    const ConfigTree tree = ConfigTree::from_file(file);
    const auto found = tree.values().find(std::string(key));
    return found == tree.values().end() ? "" : found->second.yaml;
  } catch (const Error&) {  // a rank reports the file's error
    return "";
  }
}

std::string folder_called(std::string_view key, const Words& arguments, const std::string& file) {
  if (key.empty()) return "";
  const std::string folder = typed(key, arguments);
  return folder.empty() ? in_file(key, file) : folder;
}

// Uses the experiment's folder without creating it: if the path is mistyped, the code that reads its config.yml reports
// the error.
void take_experiment(const StartWords& words, const Words& arguments, RunRequest& request) {
  if (words.experiment.empty()) return;
  const std::string folder = typed(words.experiment, arguments);
  if (folder.empty() || !FileSystem::system().exists(fs::path(folder) / "config.yml")) return;
  if (!request.run_dir) request.run_dir = folder;
  request.experiment = is_same_folder(*request.run_dir, folder);
  if (!::lockstep::common::snapshot_of(words, folder, request.resume).empty()) request.resume = "none";
}

}  // namespace

void take_folders_of_recipes(const Words& arguments, const std::string& file, RunRequest& request) {
  for (const StartWords& words : kRecipes) {
    const std::string folder = folder_called(words.run_folder, arguments, file);
    if (!request.run_dir && !folder.empty()) request.run_dir = folder;
    const std::string runs = folder_called(words.folder_of_runs, arguments, file);
    if (!runs.empty()) request.runs = runs;
  }
  for (const StartWords& words : kRecipes) take_experiment(words, arguments, request);
}

}  // namespace lockstep::apps
