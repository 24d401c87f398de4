// SPDX-License-Identifier: Apache-2.0
#include "launch/hosts/host_command.h"

#include <fmt/format.h>

#include <string_view>

namespace lockstep::launch {
namespace {

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string shell_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

std::string shell_command(const HostsOptions& options, const HostLauncher& launcher) {
  std::vector<std::string> words;
  if (!options.environment.empty()) words.emplace_back("env");
  for (const auto& [name, value] : options.environment) words.push_back(name + "=" + value);
  words.insert(words.end(), launcher.words.begin(), launcher.words.end());
  return fmt::format("cd {} && exec {}", quoted(options.folder.string()), shell_text(words));
}

std::vector<std::string> start_command(const HostsOptions& options, const HostLauncher& launcher, bool is_here) {
  if (is_here) return {"/bin/sh", "-c", shell_command(options, launcher)};
  std::vector<std::string> words = options.ssh;
  words.push_back(launcher.host.name);
  words.push_back(shell_command(options, launcher));
  return words;
}

}  // namespace lockstep::launch
