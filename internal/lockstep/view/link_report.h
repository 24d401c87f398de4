// SPDX-License-Identifier: Apache-2.0
// The measurements between the hosts of a job, as a table with hints. Pure functions.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// A host of the job, described by its first rank.
struct LinkHost {
  int rank = 0;         ///< the host's first rank
  std::string name;     ///< the host's name
  std::string address;  ///< the address at which the other ranks reach it
};

/// The speed of a connection over one wire (tls or plain). A value below 0 was not measured.
struct LinkSpeed {
  double round_trip_us = -1;  ///< median round trip of small messages
  double bytes_per_s = -1;    ///< rate in the slower direction
};

/// The connection of two hosts. A value below 0 was not measured.
struct Link {
  int from = 0;               ///< index of one host in LinkFacts::hosts
  int to = 0;                 ///< index of the other host
  double round_trip_us = -1;  ///< median round trip of small messages, over the ranks' wire
  double bytes_per_s = -1;    ///< rate in the slower direction, over the ranks' wire
  LinkSpeed other = {};       ///< speed over the wire, tls or plain, that the ranks do not use
  std::string problem = {};   ///< the reason why it could not be measured
};

/// The links between the hosts of a job, as measured.
struct LinkFacts {
  std::vector<LinkHost> hosts;  ///< hosts, ordered by their first rank
  std::vector<Link> links;      ///< links, one for each pair of hosts
  std::string wire = "tls";     ///< the ranks' wire: "tls", "plain" or "ucx"; plain is measured instead of ucx
};

/// Returns the table, followed by a hint for each finding. It ends with a newline.
[[nodiscard]] std::string links_text(const LinkFacts& facts);

/// Returns one JSON object per line: {"link", "wire", "from", "to", "round_trip_us", "gbit_per_s", "other_wire",
/// "other_round_trip_us", "other_gbit_per_s", "problem"}.
[[nodiscard]] std::string links_json(const LinkFacts& facts);

/// Returns true if some hosts cannot reach each other.
[[nodiscard]] bool is_any_link_broken(const LinkFacts& facts);

}  // namespace lockstep::view

#pragma GCC visibility pop
