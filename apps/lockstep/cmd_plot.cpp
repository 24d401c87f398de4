// SPDX-License-Identifier: Apache-2.0
// lockstep plot: executes lockstep-plot, from this program's folder, so that no other program loads cairo.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "verbs.h"

namespace lockstep::apps {

int cmd_plot(int argc, char** argv) {
  std::string program = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lockstep-plot").string();
  std::vector<char*> words = {program.data()};
  words.insert(words.end(), argv + 1, argv + argc);
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  throw ResourceError(fmt::format("cannot execute {}: {}", program, std::strerror(errno)),
                      "build lockstep-plot, or install it in the same folder as lockstep");
}

}  // namespace lockstep::apps
