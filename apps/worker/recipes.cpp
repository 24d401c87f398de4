// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "captcha/task.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "worker/recipes.h"

namespace lockstep::worker {

const std::vector<std::unique_ptr<Recipe>>& recipes() {
  static const auto* all = [] {
    auto* made = new std::vector<std::unique_ptr<Recipe>>();
    made->push_back(captcha::make_recipe());
    return made;
  }();
  return *all;
}

const Recipe& find_recipe(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& recipe : recipes()) {
    if (recipe->name() == name) return *recipe;
    names.push_back(recipe->name());
  }
  throw UsageError(
      fmt::format("no recipe is called '{}'{}; there is {}", name, text::did_you_mean(name, names), text::join(names)));
}

int with_job(const std::string& backend, const std::string& device, const std::function<int(Job&)>& body) {
  std::vector<const char*> arguments = {"lockstep-worker"};
  if (!backend.empty()) arguments.insert(arguments.end(), {"--backend", backend.c_str()});
  if (!device.empty()) arguments.insert(arguments.end(), {"--device", device.c_str()});
  Job job = init(static_cast<int>(arguments.size()), arguments.data());
  return run_body(job, body);
}

}  // namespace lockstep::worker
