// SPDX-License-Identifier: Apache-2.0
#include "common/launch_options.h"

#include "lockstep/base/error.h"
#include "lockstep/launch/train_options.h"

namespace lockstep::cli {
namespace {

void describe(CLI::App& app, const TrainOption& what) {
  CLI::Option* option = app.get_option_no_throw(std::string(what.name));
  const std::string names = option_names_of(what);
  if (option == nullptr) {
    option = what.value.empty() ? app.add_flag_function(names, [](std::int64_t) {})
                                : app.add_option_function<std::string>(names, [](const std::string&) {});
  }
  option->description(std::string(what.help));
  if (!what.group.empty()) option->group(std::string(what.group));
  if (!what.value.empty()) option->type_name(std::string(what.value))->default_str(std::string(what.fallback));
}

}  // namespace

std::string option_names_of(const TrainOption& option) {
  std::string names = option.letter == '\0' ? "" : std::string("-") + option.letter + ",";
  names += option.name;
  return option.also.empty() ? names : names + "," + std::string(option.also);
}

CLI::Option* describe(CLI::App& app, const std::string& name) {
  const TrainOption* what = find_train_option(name);
  if (what == nullptr) throw InternalError(name + " is not a training option");
  describe(app, *what);
  return app.get_option(name);
}

void describe_processes(CLI::App& app, const std::string& fallback) {
  describe(app, "--nproc-per-node")->default_str(fallback);
}

void describe_nodes(CLI::App& app) {
  for (const TrainOption& option : train_options()) {
    if (option.group == kNodesGroup) describe(app, option);
  }
}

}  // namespace lockstep::cli
