// SPDX-License-Identifier: Apache-2.0
#include "lockstep/new/project.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"

namespace lockstep::apps {
namespace {

using Replacements = std::map<std::string, std::string>;

/// One kind of project: folders of templates (later files replace earlier ones) and the values to fill in.
struct Kind {
  std::vector<std::string> folders;
  Replacements words;
};

constexpr const char* kTryProgram = R"(  add_test(NAME nothing_there COMMAND ${CMAKE_COMMAND} -E rm -rf try data)
  add_test(NAME two_ranks
    COMMAND ${LOCKSTEP_COMMAND} run --nproc-per-node 2 -- $<TARGET_FILE:@NAME@>@ARGUMENTS@)
  set_tests_properties(nothing_there PROPERTIES FIXTURES_SETUP fresh)
  set_tests_properties(two_ranks PROPERTIES FIXTURES_REQUIRED "@FIXTURES@"
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
)";

constexpr const char* kDrawData = R"(  foreach(part IN ITEMS train test)
    add_test(NAME draw_${part} COMMAND ${LOCKSTEP_COMMAND} generate captcha --out data/${part} --count 16 --seed 1
      --charset 0-9 --width 96 --height 36)
    set_tests_properties(draw_${part} PROPERTIES FIXTURES_REQUIRED fresh FIXTURES_SETUP drawn)
  endforeach()
)";

constexpr const char* kTryRun = " config.yml --resume none --set max_steps=2 --run-dir ${CMAKE_BINARY_DIR}/try";

std::map<std::string, Kind> kinds() {
  const Replacements net = {{"COMPONENT", "train"},
                            {"RECIPES", "OFF"},
                            {"TARGET", "lockstep::lockstep"},
                            {"FIXTURES", "fresh"},
                            {"DEBUG_ARGS", R"("config.yml", "--set", "max_steps=10", "--run-dir=")"}};
  Replacements trainer = net;
  trainer["HEADERS"] = "<lockstep/trainer.h> <torch/nn/modules/linear.h>";
  trainer["TRY"] = kTryProgram;
  trainer["ARGUMENTS"] = std::string("\n            ") + kTryRun;
  Replacements loop = net;
  loop["HEADERS"] = "<lockstep/loop.h> <torch/nn/modules/linear.h>";
  loop["TRY"] = kTryProgram;
  loop["ARGUMENTS"] = "";
  loop["DEBUG_ARGS"] = "";
  Replacements recipe = trainer;
  recipe["COMPONENT"] = "recipes";
  recipe["RECIPES"] = "ON";
  recipe["TARGET"] = "lockstep::recipes";
  recipe["HEADERS"] = "<lockstep/trainer.h> <captcha/task.h>";
  recipe["TRY"] = std::string(kTryProgram) + kDrawData;
  recipe["FIXTURES"] = "fresh;drawn";
  recipe["ARGUMENTS"] = std::string("\n            ") + kTryRun +
                        "\n             --set data.train=${CMAKE_BINARY_DIR}/data/train --set "
                        "data.test=${CMAKE_BINARY_DIR}/data/test --set batch_size=8";
  return {{"loop", {{"common", "net", "loop"}, loop}},
          {"recipe", {{"common", "recipe"}, recipe}},
          {"trainer", {{"common", "net", "trainer"}, trainer}}};
}

/// Returns `text` with each "@KEY@" replaced by its value, even inside replacements; any other "@" is kept.
std::string filled(std::string text, const Replacements& words) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [key, word] : words) {
      const std::string mark = "@" + key + "@";
      for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + word.size())) {
        text.replace(at, mark.size(), word);
        changed = true;
      }
    }
  }
  return text;
}

bool is_program_name(const std::string& name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= 64 && std::isalpha(static_cast<unsigned char>(name.front())) != 0 &&
         std::all_of(name.begin(), name.end(), fits);
}

}  // namespace

const std::vector<std::string>& project_kinds() {
  static const std::vector<std::string> kKinds{"trainer", "loop", "recipe"};
  return kKinds;
}

void check_project(const NewProject& project) {
  if (!is_program_name(project.name)) {
    throw UsageError(fmt::format("'{}' cannot be the name of a project", project.name),
                     "start with a letter, and use at most 64 letters, digits, '_' and '-'");
  }
  static const std::vector<std::string> kTaken{
      "all",  "clean", "help",  "install", "lockstep",  "package",   "release",    "test",         "rebuild",
      "data", "train", "torch", "try",     "data_test", "task_test", "edit_cache", "rebuild_cache"};
  if (std::find(kTaken.begin(), kTaken.end(), project.name) != kTaken.end()) {
    throw UsageError(fmt::format("the name '{}' is reserved by CMake or Lockstep", project.name),
                     fmt::format("choose another name, such as my_{}", project.name));
  }
  const auto& known = project_kinds();
  if (std::find(known.begin(), known.end(), project.from) == known.end()) {
    throw UsageError(fmt::format("--from: '{}' is not one of {}{}", project.from, text::join(known),
                                 text::did_you_mean(project.from, known)),
                     "lockstep new --help");
  }
}

std::map<std::string, std::string> project_files(const NewProject& project) {
  check_project(project);
  Kind kind = kinds().at(project.from);
  const std::string version = kVersion;
  kind.words["NAME"] = project.name;
  kind.words["VERSION"] = version.substr(0, version.rfind('.'));
  std::map<std::string, std::string> files;
  for (const std::string& folder : kind.folders) {
    for (const auto& [path, text] : project_templates()) {
      if (path.starts_with(folder + "/")) files[path.substr(folder.size() + 1)] = filled(text, kind.words);
    }
  }
  return files;
}

std::vector<std::string> next_commands(const NewProject& project, const std::string& prefix) {
  const bool is_searched = prefix.empty() || prefix == "/usr" || prefix == "/usr/local";
  std::vector<std::string> commands = {
      fmt::format("cmake --preset release{} && cmake --build --preset release",
                  is_searched ? "" : " -D CMAKE_PREFIX_PATH=\"$(lockstep cmake-dir)\"")};
  const std::string program = "build/release/" + project.name;
  if (project.from == "recipe") {
    for (const char* words : {"train --count 3000 --seed 1", "test --count 200 --seed 2"}) {
      commands.push_back(fmt::format(
          "lockstep generate captcha --out data/{} --charset 0-9 --width 96 --height 36 --style custom", words));
    }
  }
  const std::string config = project.from == "loop" ? "" : " config.yml";
  commands.push_back(fmt::format("lockstep run --nproc-per-node 2 -- {}{}", program, config));
  return commands;
}

std::vector<std::string> missing_packages(const std::string& path) {
  const std::map<std::string, std::string> package_of{{"c++", "g++"}, {"cmake", "cmake"}, {"ninja", "ninja-build"}};
  std::vector<std::string> missing;
  for (const auto& [program, package] : package_of) {
    bool is_there = false;
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      std::error_code error;
      is_there = is_there || std::filesystem::exists(std::filesystem::path(folder) / program, error);
    }
    if (!is_there) missing.push_back(package);
  }
  return missing;
}

}  // namespace lockstep::apps
