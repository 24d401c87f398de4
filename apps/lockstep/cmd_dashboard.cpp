// SPDX-License-Identifier: Apache-2.0
// lockstep dashboard: executes lockstep-dashboard from this program's folder. It is a separate program so that no other
// verb loads a web server. A run's --dashboard option starts the same program alongside the run.
#include "page_of_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "verbs.h"

namespace lockstep::apps {
namespace {

std::string program_path() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lockstep-dashboard").string();
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

bool is_page_address(const std::string& word) { return is_number(word.substr(word.rfind(':') + 1)); }

std::optional<std::string> take_dashboard(std::vector<std::string>& words) {
  constexpr std::string_view kName = "--dashboard";
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto at = std::find_if(words.begin(), end, [&](const std::string& word) {
    return word == kName || word.starts_with(std::string(kName) + "=");
  });
  if (at == end) return std::nullopt;
  std::string address = "0";
  auto last = at + 1;
  if (*at != kName) {
    address = at->substr(kName.size() + 1);
  } else if (last != end && is_page_address(*last)) {
    address = *last++;
  }
  words.erase(at, last);
  if (!is_page_address(address)) {
    throw UsageError(fmt::format("--dashboard is '{}'", address), "use PORT or HOST:PORT; port 0 picks any free port");
  }
  return address;
}

void show_page_of_run(const std::string& address, const std::filesystem::path& folder) {
  std::vector<std::string> words = {program_path(),  std::filesystem::absolute(folder).string(),
                                    "--listen",      address,
                                    "--of-launcher", std::to_string(::getpid())};
  const std::vector<char*> arguments = pointers(words);
  if (::access(arguments[0], X_OK) != 0) {
    throw ResourceError(fmt::format("cannot execute {}: {}", words[0], std::strerror(errno)),
                        "build lockstep-dashboard, or install it in the same folder as lockstep");
  }
  const pid_t child = ::fork();
  if (child < 0) throw ResourceError(fmt::format("cannot start {}: {}", words[0], std::strerror(errno)), "try again");
  if (child > 0) return;
  // Standard output belongs to the run: a reader of its pipe must see the end when the run ends, not when the page
  // does.
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO}) {
    if (nothing >= 0) ::dup2(nothing, file);
  }
  ::execv(arguments[0], arguments.data());
  ::_exit(static_cast<int>(ExitCode::kResource));
}

int cmd_dashboard(int argc, char** argv) {
  std::vector<std::string> words = {program_path()};
  words.insert(words.end(), argv + 1, argv + argc);
  const std::vector<char*> arguments = pointers(words);
  ::execv(arguments[0], arguments.data());
  throw ResourceError(fmt::format("cannot execute {}: {}", words[0], std::strerror(errno)),
                      "build lockstep-dashboard, or install it in the same folder as lockstep");
}

}  // namespace lockstep::apps
