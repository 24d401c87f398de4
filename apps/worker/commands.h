// SPDX-License-Identifier: Apache-2.0
// The verbs of lockstep-worker: what computes with libtorch. `lockstep` executes it; each takes the words after the verb.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/recipe.h"

namespace lockstep::worker {

using Arguments = std::vector<std::string>;

int cmd_train(const Arguments& arguments);
int cmd_eval(const Arguments& arguments);
int cmd_predict(const Arguments& arguments);
int cmd_generate(const Arguments& arguments);
int cmd_bench(const Arguments& arguments);
int cmd_checkpoint(const Arguments& arguments);
int cmd_inspect(const Arguments& arguments);

/// Every recipe, by name. Lifetime: the whole program.
[[nodiscard]] const std::vector<std::unique_ptr<Recipe>>& recipes();

/// Throws: UsageError with the nearest name.
[[nodiscard]] const Recipe& find_recipe(const std::string& name);

/// Joins the job that the environment describes; `backend` and `device` as the options of that name, "" for the
/// default. An error of `body` is told to the other ranks before it goes on its way.
int with_job(const std::string& backend, const std::string& device, const std::function<int(Job&)>& body);

}  // namespace lockstep::worker
