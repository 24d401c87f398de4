// SPDX-License-Identifier: Apache-2.0
#include "launch/output/console_choice.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::launch {
namespace {

// torchrun's numbers: 1 is stdout, 2 stderr, 3 both.
bool has_stream(const StreamsByRank& streams, int local_rank, int stream) {
  const auto found = streams.of_rank.find(local_rank);
  const int bits = found != streams.of_rank.end() ? found->second : streams.of_all;
  return (bits >> stream & 1) != 0;
}

}  // namespace

bool is_on_console(const ConsoleChoice& choice, int local_rank, int stream) {
  const auto& only = choice.local_ranks;
  if (!only.empty() && std::find(only.begin(), only.end(), local_rank) == only.end()) return false;
  return has_stream(choice.tee, local_rank, stream) || !has_stream(choice.redirects, local_rank, stream);
}

std::string fill_prefix(const std::string& text, const std::string& role, int local_rank, int rank) {
  const std::array<std::pair<std::string, std::string>, 3> fields = {
      {{"${role_name}", role}, {"${local_rank}", std::to_string(local_rank)}, {"${rank}", std::to_string(rank)}}};
  std::string filled = text;
  for (const auto& [name, value] : fields) {
    for (std::size_t at = 0; (at = filled.find(name, at)) != std::string::npos; at += value.size()) {
      filled.replace(at, name.size(), value);
    }
  }
  return filled;
}

}  // namespace lockstep::launch
