// SPDX-License-Identifier: Apache-2.0
#include "comm/addresses/slurm.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/store/node_list.h"

namespace lockstep::comm {

std::vector<std::string> expand_node_list(const std::string& list, const char* variable, std::size_t most) {
  std::vector<std::string> hosts = hosts_of_node_list(list, most);
  if (!hosts.empty()) return hosts;
  throw UsageError(fmt::format("{} is '{}', which is not a list of hosts", variable, list),
                   "set MASTER_ADDR to the host of rank 0");
}

std::string tasks_of_node(const std::string& list, std::int64_t node) {
  for (const std::string_view part : split_node_list(list)) {
    const auto open = part.find("(x");
    const auto times = open == std::string_view::npos
                           ? std::optional<std::int64_t>(1)
                           : parse_whole(part.substr(open + 2, part.find(')') - open - 2), {.most = 999'999'999});
    if (!times) break;
    if (node < *times) return std::string(part.substr(0, open));
    node -= *times;
  }
  return list;
}

std::string note_on_shell(const Environment& environment, const RankInfo& info) {
  if (info.source != "Slurm" || info.world_size == 1 || !environment.contains("SLURM_PTY_PORT")) return "";
  return fmt::format(
      "this srun --pty shell is task {} of {} in Slurm, so this process is one rank and waits for the others: leave "
      "the shell and put srun -n {} before the command, or put env -u SLURM_STEP_ID before it to start a launcher here",
      info.rank, info.world_size, info.world_size);
}

}  // namespace lockstep::comm
