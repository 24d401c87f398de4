// SPDX-License-Identifier: Apache-2.0
#include "worker/typed_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/train_options.h"
#include "worker/settings.h"

namespace lockstep::worker {

std::string file_word(const Arguments& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.starts_with("--config=")) return word.substr(9);
    if ((word == "-c" || word == "--config") && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return "";
}

namespace {

// The word that names the recipe; without one, the file of -c.
std::string recipe_or_file(const Arguments& arguments) {
  const std::string word = recipe_word(arguments);
  return word.empty() ? file_word(arguments) : word;
}

// Converts "-u a=b c=d" to "--set a=b --set c=d", so that all assignments are in one order.
Arguments with_updates_as_sets(const Arguments& arguments) {
  Arguments words;
  bool updating = false;
  for (const std::string& word : arguments) {
    if (word == "-u" || word == "--update") {
      updating = true;
      continue;
    }
    updating = updating && !word.starts_with("-");
    if (updating) words.push_back("--set");
    words.push_back(word);
  }
  return words;
}

bool asks_for_help(const Arguments& arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::any_of(arguments.begin(), end, [](const auto& word) { return word == "--help" || word == "-h"; });
}

}  // namespace

Arguments with_settings(const CLI::App& app, const std::string& verb, const Arguments& typed) {
  const Arguments updated = with_updates_as_sets(typed);
  const std::string what = asks_for_help(typed) ? "" : recipe_or_file(typed);
  if (what.empty() || what == kBase) return updated;
  const Recipe& recipe = recipe_of(what);
  const Arguments words =
      cli::take_settings(app, updated,
                         {.is_setting = [&](const std::string& name) { return is_setting(recipe, name); },
                          .is_switch = [&](const std::string& name) { return is_switch(recipe, name); }});
  std::vector<std::string> known = cli::option_names(app);
  for (const std::string& name : setting_names(recipe)) known.push_back("--" + name);
  for (const std::string& argument : words) {
    if (argument == "--") break;
    const std::string word = cli::with_dashes(argument.substr(0, argument.find('=')));
    if (!word.starts_with("--") || std::find(known.begin(), known.end(), word) != known.end()) continue;
    throw UsageError(
        fmt::format("{}: unknown option '{}'{}", verb, word, text::did_you_mean(word, known)),
        fmt::format("{} --help lists the options, lockstep inspect config {} lists the settings", verb, recipe.name()));
  }
  return words;
}

}  // namespace lockstep::worker
