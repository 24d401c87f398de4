// SPDX-License-Identifier: Apache-2.0
// lockstep new NAME: writes a small project that builds, trains and has a test.
#include <fmt/format.h>

#include <filesystem>

#include "common/cli.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/installation.h"
#include "lockstep/new/project.h"
#include "lockstep/verbs.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

struct NewWords {
  NewProject project;
  std::string folder;
};

bool parse(NewWords& words, const std::vector<std::string>& arguments) {
  CLI::App app;
  cli::prepare(app, {.name = "lockstep new",
                     .description = "Write a small CMake project that uses Lockstep: a program, a data set, settings, "
                                    "a test, presets, and a debugger configuration.",
                     .examples = {"lockstep new digits", "lockstep new digits --from loop --folder work/digits"}});
  app.add_option("NAME", words.project.name, "the name of the project, its folder and its program")->required();
  app.add_option("--from", words.project.from,
                 "what to start from: a task for the Trainer, a training loop of your own, or a change to the captcha "
                 "recipe")
      ->type_name(text::join(project_kinds(), "|"));
  app.add_option("--folder", words.folder, "where to write the project; the folder must be new or empty")
      ->type_name("FOLDER")
      ->default_str("NAME");
  return cli::parse(app, arguments);
}

void require_empty(FileSystem& files, const fs::path& folder) {
  if (!files.exists(folder)) return;
  if (files.list(folder).empty()) return;
  throw UsageError(fmt::format("{} exists and is not empty", folder.string()),
                   "choose another folder with --folder FOLDER");
}

void write_project(FileSystem& files, const fs::path& folder, const NewProject& project) {
  for (const auto& [path, text] : project_files(project)) {
    fs::create_directories((folder / path).parent_path());
    write_file_atomically(files, folder / path, text);
  }
}

/// Prints the commands to type next. If this command has no CMake package, a comment names what installs one.
void print_next(const NewProject& project, const fs::path& folder) {
  print_to(stdout, "{} is ready. Next:\n\n  cd {}\n", folder.string(), text::shell_word(folder.string()));
  const auto missing = missing_packages(env::get("PATH").value_or(""));
  if (!missing.empty()) print_to(stdout, "  sudo apt install {}\n", text::join(missing, " "));
  std::string prefix;
  try {
    prefix = cmake_folder_of(this_program()).string();
  } catch (const ResourceError& error) {
    print_to(stdout, "  # {}\n  # {}\n", error.message(), error.hint());
  }
  for (const std::string& command : next_commands(project, prefix)) print_to(stdout, "  {}\n", command);
}

}  // namespace

int cmd_new(int argc, char** argv) {
  NewWords words;
  if (!parse(words, {argv + 1, argv + argc})) return 0;
  check_project(words.project);
  const fs::path folder = words.folder.empty() ? fs::path(words.project.name) : fs::path(words.folder);
  FileSystem& files = FileSystem::system();
  require_empty(files, folder);
  try {
    write_project(files, folder, words.project);
  } catch (const fs::filesystem_error& error) {
    throw IoError(fmt::format("cannot write {}: {}", folder.string(), error.code().message()));
  }
  if (env::get("LOCKSTEP_QUIET").value_or("0") == "0") print_next(words.project, folder);
  return 0;
}

}  // namespace lockstep::apps
