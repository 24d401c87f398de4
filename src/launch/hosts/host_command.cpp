// SPDX-License-Identifier: Apache-2.0
#include "launch/hosts/host_command.h"

#include <fmt/format.h>

#include "lockstep/base/printable.h"

namespace lockstep::launch {
namespace {

// Escapes a value to fit on one line; obey_input() reverses it.
std::string on_one_line(const std::string& value) {
  std::string line;
  for (const char c : value) line += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  return line;
}

}  // namespace

std::string first_orders(const HostsOptions& options) {
  std::string orders = options.token + "\n";
  for (const auto& [name, value] : options.environment) orders += name + "=" + on_one_line(value) + "\n";
  return orders + "\n";
}

std::string shell_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + text::shell_word(word);
  return text;
}

std::string shell_command(const HostsOptions& options, const HostLauncher& launcher) {
  return fmt::format("cd {} && exec {}", text::shell_word(options.folder.string()), shell_text(launcher.words));
}

std::vector<std::string> start_command(const HostsOptions& options, const HostLauncher& launcher, bool is_here) {
  if (is_here) return {"/bin/sh", "-c", shell_command(options, launcher)};
  std::vector<std::string> words = options.ssh;
  words.push_back(launcher.host.name);
  words.push_back(shell_command(options, launcher));
  return words;
}

}  // namespace lockstep::launch
