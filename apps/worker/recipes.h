// SPDX-License-Identifier: Apache-2.0
// The recipes that the command line knows, and how a command joins its job.
#pragma once

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

/// Joins the job that the environment describes; `backend` and `device` as the options of that name, "" for the
/// default. An error of `body` is told to the other ranks before it goes on its way.
int with_job(const std::string& backend, const std::string& device, const std::function<int(Job&)>& body);

}  // namespace lockstep::worker
