// SPDX-License-Identifier: Apache-2.0
// The recipes of the command line, and the options with which a command joins its job.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/recipe.h"

namespace lockstep::worker {

/// The --help texts of arguments and options that several verbs share.
inline constexpr const char* kCheckpointHelp = "a step folder, a run folder (its newest valid checkpoint) or RUN:NAME";
inline constexpr const char* kCheckpointOrFileHelp =
    "a step folder, a run folder (its newest valid checkpoint), RUN:NAME, or a .pth or .safetensors file";
inline constexpr const char* kRecipeHelp =
    "a recipe, a recipe with a preset (RECIPE:PRESET), or a .yml file whose key `recipe` names one";
inline constexpr const char* kTrainedHelp = "the recipe that trained the checkpoint";
inline constexpr const char* kSetHelp = "change a setting; may be given more than once";
inline constexpr const char* kOtherSetHelp =
    "change a setting that the checkpoint was trained with; may be given more than once";

/// Every recipe, by name. Lifetime: the whole program.
[[nodiscard]] const std::vector<std::unique_ptr<Recipe>>& recipes();

/// Returns the recipe. Throws: UsageError that suggests the closest name if there is no such recipe.
[[nodiscard]] const Recipe& find_recipe(const std::string& name);

/// The options with which a command joins its job; "" means the default.
struct JoinArguments {
  std::string backend;
  std::string wire;
  std::string device;
  std::string dist_url;
  std::string rank;
  std::string world_size;
  std::string local_rank;
  bool keeps_notes =
      false;  ///< true: the body prints the launcher's notes (start_notes.h) once its data are known to be valid
};

/// Adds --backend and --wire.
void add_backend_options(CLI::App& app, JoinArguments& join);
void add_device_option(CLI::App& app, std::string& device);
/// Adds --backend, --wire, --device, --dist-url, --rank, --world-size and --local-rank.
void add_join_options(CLI::App& app, JoinArguments& join);

/// Joins the job that the environment or `join` describes. If `body` throws, sends the error to the other ranks and
/// rethrows it.
int with_job(const JoinArguments& join, const std::function<int(Job&)>& body);

}  // namespace lockstep::worker
