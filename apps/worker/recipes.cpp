// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "captcha/task.h"
#include "captioning/task.h"
#include "common/launch_options.h"
#include "common/start_notes.h"
#include "detection/task.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "segmentation/task.h"
#include "worker/recipes.h"

namespace lockstep::worker {

const std::vector<std::unique_ptr<Recipe>>& recipes() {
  static const auto* all = [] {
    auto* made = new std::vector<std::unique_ptr<Recipe>>();
    made->push_back(captcha::make_recipe());
    made->push_back(detection::make_recipe());
    made->push_back(segmentation::make_recipe());
    made->push_back(captioning::make_recipe());
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
  throw UsageError(fmt::format("there is no recipe '{}'{}; the recipes are {}", name, text::did_you_mean(name, names),
                               text::join(names)));
}

void add_backend_options(CLI::App& app, JoinArguments& join) {
  app.add_option("--backend", join.backend);
  app.add_option("--wire", join.wire);
  for (const char* name : {"--backend", "--wire"}) cli::describe(app, name);
}

void add_device_option(CLI::App& app, std::string& device) {
  const std::string fallback = device.empty() ? "auto" : device;
  app.add_option("-d,--device", device);
  cli::describe(app, "--device")->default_str(fallback);
}

void add_join_options(CLI::App& app, JoinArguments& join) {
  add_backend_options(app, join);
  add_device_option(app, join.device);
  app.add_option("--dist-url", join.dist_url);
  app.add_option("--rank", join.rank);
  app.add_option("--world-size", join.world_size);
  app.add_option("--local-rank", join.local_rank);
  for (const char* name : {"--dist-url", "--rank", "--world-size", "--local-rank"}) cli::describe(app, name);
}

int with_job(const JoinArguments& join, const std::function<int(Job&)>& body) {
  std::vector<const char*> arguments = {"lockstep-worker"};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value.c_str()});
  };
  add("--backend", join.backend);
  add("--wire", join.wire);
  add("--device", join.device);
  add("--dist_url", join.dist_url);
  add("--rank", join.rank);
  add("--world_size", join.world_size);
  add("--local_rank", join.local_rank);
  Job job = init(static_cast<int>(arguments.size()), arguments.data());
  return run_body(job, [&](Job& joined) {
    if (!join.keeps_notes) cli::say_start_notes();
    return body(joined);
  });
}

}  // namespace lockstep::worker
