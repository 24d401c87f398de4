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

/// Every recipe, by name. Lifetime: the whole program.
[[nodiscard]] const std::vector<std::unique_ptr<Recipe>>& recipes();

/// Throws: UsageError with the nearest name.
[[nodiscard]] const Recipe& find_recipe(const std::string& name);

/// How a command joins its job; "" for the default of each.
struct JoinArguments {
  std::string backend;
  std::string device;
  std::string dist_url;
  std::string rank;
  std::string world_size;
};

/// --backend, --device, --dist-url, --rank and --world-size.
void add_join_options(CLI::App& app, JoinArguments& join);

/// Joins the job that the environment or `join` describes. An error of `body` is told to the other ranks before it goes
/// on its way.
int with_job(const JoinArguments& join, const std::function<int(Job&)>& body);

}  // namespace lockstep::worker
