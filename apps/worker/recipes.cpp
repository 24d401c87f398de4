// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "captcha/task.h"
#include "captioning/task.h"
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
  throw UsageError(
      fmt::format("no recipe is called '{}'{}; there is {}", name, text::did_you_mean(name, names), text::join(names)));
}

void add_join_options(CLI::App& app, JoinArguments& join) {
  app.add_option("--backend", join.backend, "auto, local, shm, gloo or nccl (default: auto)");
  app.add_option("--device", join.device, "auto, cpu or cuda (default: auto)");
  app.add_option("--dist-url", join.dist_url,
                 "where ranks meet that are started one by one: env://, tcp://HOST:PORT or file:///PATH");
  app.add_option("--rank", join.rank, "of this process, with tcp:// or file://");
  app.add_option("--world-size", join.world_size, "processes in all, with tcp:// or file://");
}

int with_job(const JoinArguments& join, const std::function<int(Job&)>& body) {
  std::vector<const char*> arguments = {"lockstep-worker"};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value.c_str()});
  };
  add("--backend", join.backend);
  add("--device", join.device);
  add("--dist_url", join.dist_url);
  add("--rank", join.rank);
  add("--world_size", join.world_size);
  Job job = init(static_cast<int>(arguments.size()), arguments.data());
  return run_body(job, body);
}

}  // namespace lockstep::worker
