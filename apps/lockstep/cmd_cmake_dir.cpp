// SPDX-License-Identifier: Apache-2.0
// lockstep cmake-dir: prints the folder that find_package(Lockstep) must search.
#include <string>
#include <vector>

#include "common/cli.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/installation.h"
#include "lockstep/verbs.h"

namespace lockstep::apps {

int cmd_cmake_dir(int argc, char** argv) {
  CLI::App app;
  cli::prepare(
      app,
      {.name = "lockstep cmake-dir",
       .description =
           "Print the folder to put in CMAKE_PREFIX_PATH so that find_package(Lockstep) finds the library installed "
           "with this command.\n\nIn a project: cmake -S . -B build -D CMAKE_PREFIX_PATH=$(lockstep cmake-dir)",
       .examples = {"lockstep cmake-dir"}});
  if (!cli::parse(app, {argv + 1, argv + argc})) return 0;
  print_to(stdout, "{}\n", cmake_folder_of(this_program()).string());
  return 0;
}

}  // namespace lockstep::apps
