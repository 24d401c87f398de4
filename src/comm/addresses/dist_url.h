// SPDX-License-Identifier: Apache-2.0
// `--dist_url env://`, `tcp://host:port`, `file:///path`: PyTorch's rendezvous addresses. plan_world() is a pure
// function.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/discovery.h"

namespace lockstep::comm {

/// The values from the command line, which take precedence over the environment.
struct DistArguments {
  std::string url;                                       ///< value of --dist_url; empty means env://
  std::optional<std::string> rank = std::nullopt;        ///< --rank
  std::optional<std::string> world_size = std::nullopt;  ///< --world_size
  std::optional<std::string> local_rank = std::nullopt;  ///< --local_rank, as torch.distributed.launch passes it
};

/// Returns the plan that `arguments` and `environment` describe. A tcp:// or file:// address takes precedence over a
/// launcher's store; rank and world size come from the address (?rank=0&world_size=4), else from the arguments, else
/// from the environment. With env:// the arguments are allowed only if they repeat the environment, since
/// torch.distributed.launch passes them; -1 means unknown.
/// Throws: UsageError for any other kind of address, naming the valid kinds; for a missing rank or world size; and for
/// an argument that contradicts the environment, naming both values.
[[nodiscard]] WorldPlan plan_world(const DistArguments& arguments, const Environment& environment);

/// Returns a note for users who set an address but no rank: the process is alone. Empty if that is not so.
[[nodiscard]] std::string note_on_address(const Environment& environment, const RankInfo& info);

/// Returns the first of these numeric addresses that is neither a loopback address nor link-local; none if there is no
/// such address. Pure.
[[nodiscard]] std::optional<std::string> reachable_address(const std::vector<std::string>& addresses);

/// Returns an address of this host that other hosts can reach: the address to which its host name resolves, else the
/// one that the default route uses, else that of an interface; loopback and link-local addresses do not count.
/// Returns 127.0.0.1 if the host has no other address. Blocks: on the resolver.
[[nodiscard]] std::string own_address();

}  // namespace lockstep::comm
