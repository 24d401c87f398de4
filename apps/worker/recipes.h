// SPDX-License-Identifier: Apache-2.0
// The recipes that the command line knows, and how a command joins its job.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/recipe.h"

namespace lockstep::worker {

/// What --help says of an argument or option that several verbs have.
inline constexpr const char* kCheckpointHelp = "a step folder, a run folder (its newest valid checkpoint) or RUN:NAME";
inline constexpr const char* kCheckpointOrFileHelp =
    "a step folder, a run folder (its newest valid checkpoint), RUN:NAME, or a .pth, .npz or .safetensors file";
inline constexpr const char* kRecipeHelp =
    "a recipe, a recipe with a preset (RECIPE:PRESET), or a .yml file whose key `recipe` names one";
inline constexpr const char* kTrainedHelp = "the recipe that trained the checkpoint";
inline constexpr const char* kSetHelp = "change a setting; may be given more than once";
inline constexpr const char* kOtherSetHelp =
    "change a setting that the checkpoint was trained with; may be given more than once";

/// Every recipe, by name. Lifetime: the whole program.
[[nodiscard]] const std::vector<std::unique_ptr<Recipe>>& recipes();

/// Throws: UsageError with the nearest name.
[[nodiscard]] const Recipe& find_recipe(const std::string& name);

/// How a command joins its job; "" for the default of each.
struct JoinArguments {
  std::string backend;
  std::string wire;
  std::string device;
  std::string dist_url;
  std::string rank;
  std::string world_size;
  std::string local_rank;
  bool keeps_notes =
      false;  ///< the body says the launcher's notes (start_notes.h), when its data are known to be right
};

/// --backend and --wire.
void add_backend_options(CLI::App& app, JoinArguments& join);
void add_device_option(CLI::App& app, std::string& device);
/// These three, --dist-url, --rank, --world-size and --local-rank.
void add_join_options(CLI::App& app, JoinArguments& join);

/// Joins the job that the environment or `join` describes. An error of `body` is told to the other ranks before it goes
/// on its way.
int with_job(const JoinArguments& join, const std::function<int(Job&)>& body);

}  // namespace lockstep::worker
