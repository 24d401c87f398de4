// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/launch/hosts.h"
#include "lockstep/store/node_list.h"

namespace lockstep {
namespace {

constexpr const char* kHostForms = "use HOST, USER@HOST or HOST:RANKS, such as gpu1,gpu2:8 or gpu[01-04]";

// Returns false for a name that ssh would read as an option, or that a shell would split into words.
bool is_name(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@:%";
  return !name.empty() && name[0] != '-' && name.find_first_not_of(kLetters) == std::string_view::npos &&
         name.back() != '@';
}

std::optional<int> slots_of(const std::string& text) {
  const auto number = parse_whole(text, {.least = 1, .most = 100'000});
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// Parses a host; none if `text` is not one.
std::optional<HostEntry> parse_host(const std::string& text) {
  HostEntry host{.name = text};
  std::string slots;
  if (const auto open = text.find('[');
      open != std::string::npos) {  // an IPv6 address, in brackets because of its colons
    const auto close = text.find(']', open);
    if (close == std::string::npos) return std::nullopt;
    host.name = text.substr(0, open) + text.substr(open + 1, close - open - 1);
    slots = text.substr(close + 1);
  } else if (const auto colon = text.find(':'); colon != std::string::npos && colon == text.rfind(':')) {
    host.name = text.substr(0, colon);
    slots = text.substr(colon);
  }
  if (!is_name(host.name)) return std::nullopt;
  if (slots.empty()) return host;
  const auto count = slots[0] == ':' ? slots_of(slots.substr(1)) : std::nullopt;
  if (!count) return std::nullopt;
  host.slots = *count;
  return host;
}

// Parses a host, or Slurm's notation for several: "gpu[01-02]:8". Brackets with a colon hold an IPv6 address. Returns
// no host if `text` is neither.
std::vector<HostEntry> parse_hosts_of(const std::string& text) {
  const auto open = text.find('[');
  const auto close = text.rfind(']');
  const bool are_many = open != std::string::npos && close != std::string::npos && open < close &&
                        text.substr(open, close - open).find(':') == std::string::npos;
  const auto colon = are_many ? std::min(text.find(':', close), text.size()) : text.size();
  std::vector<HostEntry> hosts;
  for (const std::string& name : are_many ? hosts_of_node_list(text.substr(0, colon)) : std::vector{text}) {
    const auto host = parse_host(name + text.substr(colon));
    if (!host) return {};
    hosts.push_back(*host);
  }
  return hosts;
}

// Returns the end of the entry that begins at `begin`: the next comma outside brackets.
std::size_t end_of_entry(const std::string& list, std::size_t begin) {
  int depth = 0;
  for (std::size_t at = begin; at < list.size(); ++at) {
    depth += list[at] == '[' ? 1 : list[at] == ']' ? -1 : 0;
    if (list[at] == ',' && depth <= 0) return at;
  }
  return list.size();
}

// Adds the ranks of a host that a hostfile lists again, as PBS does once for each rank. A line without a number is then
// one rank.
void add_up(std::vector<HostEntry>& hosts) {
  std::vector<HostEntry> sums;
  for (const HostEntry& host : hosts) {
    const auto is_it = [&](const HostEntry& other) { return other.name == host.name; };
    const auto found = std::find_if(sums.begin(), sums.end(), is_it);
    if (found == sums.end()) {
      sums.push_back({.name = host.name, .slots = std::max(host.slots, 1)});
    } else {
      found->slots += std::max(host.slots, 1);
    }
  }
  if (sums.size() < hosts.size()) hosts = std::move(sums);
}

// Returns the words of a line, up to its comment.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream rest(line.substr(0, line.find('#')));
  for (std::string word; rest >> word;) words.push_back(word);
  return words;
}

void require_distinct(const std::vector<HostEntry>& hosts) {
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (address_of(hosts[i]) != address_of(hosts[j])) continue;
      throw UsageError(fmt::format("host {} is listed twice", address_of(hosts[i])),
                       fmt::format("list each host once, with its number of ranks: {}:8", hosts[i].name));
    }
  }
}

}  // namespace

std::string address_of(const HostEntry& host) { return host.name.substr(host.name.find('@') + 1); }

std::vector<HostEntry> parse_hosts(const std::string& list) {
  std::vector<HostEntry> hosts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = end_of_entry(list, at);
    const std::string text = list.substr(at, end - at);
    at = end + 1;
    const std::vector<HostEntry> found = parse_hosts_of(text);
    if (found.empty()) throw UsageError(fmt::format("--hosts has '{}'", text), kHostForms);
    hosts.insert(hosts.end(), found.begin(), found.end());
  }
  require_distinct(hosts);
  return hosts;
}

namespace {

/// Returns the file's contents. The file may also be a pipe from the shell.
std::string text_of_hostfile(const std::filesystem::path& file) {
  constexpr std::size_t kMostBytes = 1U << 20U;
  std::ifstream in(file);
  if (!in) throw DataError(fmt::format("cannot read the hostfile {}", file.string()), "it must have one host per line");
  std::string text(kMostBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() <= kMostBytes) return text;
  throw DataError(fmt::format("the hostfile {} has more than {}", file.string(), text::bytes(kMostBytes)),
                  "it must have one host per line");
}

}  // namespace

std::vector<HostEntry> read_hostfile(const std::filesystem::path& file) {
  std::istringstream in(text_of_hostfile(file));
  std::vector<HostEntry> hosts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto words = words_of(line);
    if (words.empty()) continue;
    std::vector<HostEntry> found = parse_hosts_of(words[0]);
    bool is_good = !found.empty();
    for (std::size_t i = 1; is_good && i < words.size(); ++i) {
      if (words[i].rfind("max_slots=", 0) == 0 || words[i].rfind("max-slots=", 0) == 0) continue;
      const auto count = words[i].rfind("slots=", 0) == 0 ? slots_of(words[i].substr(6)) : std::nullopt;
      is_good = count.has_value();
      for (HostEntry& host : found) host.slots = count.value_or(0);
    }
    if (!is_good)
      throw UsageError(fmt::format("{}:{} is '{}'", file.string(), number, line), "write HOST or HOST slots=N");
    hosts.insert(hosts.end(), found.begin(), found.end());
  }
  if (hosts.empty())
    throw DataError(fmt::format("the hostfile {} lists no hosts", file.string()), "it must have one host per line");
  add_up(hosts);
  require_distinct(hosts);
  return hosts;
}

}  // namespace lockstep
