// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/node_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

std::optional<std::int64_t> number_of(std::string_view digits) {
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  return std::stoll(std::string(digits));
}

// Adds the numbers of a range such as "08-11" or "7". Returns false if `range` is neither.
bool add_range(std::string_view range, std::size_t most, Names& numbers) {
  const auto dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const auto first = number_of(low);
  const auto last = dash == std::string_view::npos ? first : number_of(range.substr(dash + 1));
  if (!first || !last || *last < *first) return false;
  for (std::int64_t number = *first; number <= *last && numbers.size() < most; ++number) {
    numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  }
  return true;
}

// Adds the hosts of a part such as "a[1-2]b[3]": combines every number of each bracket with every number of the later
// brackets; the last bracket varies fastest.
bool add_hosts(std::string_view part, std::size_t most, Names& hosts) {
  Names names = {""};
  while (!part.empty()) {
    const auto open = std::min(part.find('['), part.size());
    for (std::string& name : names) name += part.substr(0, open);
    part.remove_prefix(open);
    if (part.empty()) break;
    const auto close = part.find(']');
    if (close == std::string_view::npos) return false;
    Names numbers;
    for (const std::string_view range : split_node_list(part.substr(1, close - 1))) {
      if (!add_range(range, most, numbers)) return false;
    }
    part.remove_prefix(close + 1);
    Names longer;
    for (const std::string& name : names) {
      for (std::size_t i = 0; i < numbers.size() && longer.size() < most; ++i) longer.push_back(name + numbers[i]);
    }
    names = std::move(longer);
  }
  for (std::size_t i = 0; i < names.size() && hosts.size() < most; ++i) hosts.push_back(names[i]);
  return true;
}

bool is_host(const std::string& name) { return !name.empty() && name.find_first_of("[] \t\n") == std::string::npos; }

}  // namespace

std::vector<std::string_view> split_node_list(std::string_view list) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t at = 0; at < list.size(); ++at) {
    depth += list[at] == '[' ? 1 : list[at] == ']' ? -1 : 0;
    if (depth > 0 || std::string_view(", \t\n").find(list[at]) == std::string_view::npos) continue;
    parts.push_back(list.substr(start, at - start));
    start = at + 1;
  }
  parts.push_back(list.substr(start));
  return parts;
}

std::vector<std::string> hosts_of_node_list(std::string_view list, std::size_t most) {
  Names hosts;
  bool is_good = true;
  for (const std::string_view part : split_node_list(list)) {
    is_good = is_good && (part.empty() || add_hosts(part, most, hosts));
  }
  return is_good && std::all_of(hosts.begin(), hosts.end(), is_host) ? hosts : Names{};
}

}  // namespace lockstep
