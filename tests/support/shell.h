// SPDX-License-Identifier: Apache-2.0
// Runs shell commands, for tests that need namespaces or other programs.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

namespace lockstep::testing {

/// A command's output (stdout and stderr) and its wait status: 0 for success.
struct Output {
  int code = -1;
  std::string text;
};

inline Output run_shell(const std::string& command) {
  Output output;
  std::string quoted;
  for (const char c : command) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  std::FILE* pipe = popen(("timeout 100 bash -c '" + quoted + "' 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  for (std::size_t size = 0; (size = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    output.text.append(buffer, size);
  output.code = pclose(pipe);
  return output;
}

inline std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace lockstep::testing
