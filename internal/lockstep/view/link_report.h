// SPDX-License-Identifier: Apache-2.0
// The measurements between the hosts of a job, as a table with hints. Pure.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::view {

/// A host of the job, as its first rank describes it.
struct LinkHost {
  int rank = 0;         ///< its first rank
  std::string name;     ///< its name
  std::string address;  ///< the address at which the other ranks reach it
};

/// The speed of one wire. A figure below 0 was not measured.
struct LinkSpeed {
  double round_trip_us = -1;  ///< median of small messages
  double bytes_per_s = -1;    ///< in the slower direction
};

/// Between two hosts, by their places in LinkFacts::hosts. A figure below 0 was not measured.
struct Link {
  int from = 0;               ///< place of the one host
  int to = 0;                 ///< place of the other
  double round_trip_us = -1;  ///< median of small messages, over the ranks' wire
  double bytes_per_s = -1;    ///< in the slower direction, over the ranks' wire
  LinkSpeed other = {};       ///< over the other one of tls and plain
  std::string problem = {};   ///< why it could not be measured
};

/// The links between the hosts of a job, as measured.
struct LinkFacts {
  std::vector<LinkHost> hosts;  ///< by their first rank
  std::vector<Link> links;      ///< one for each pair of hosts
  std::string wire = "tls";  ///< that of the ranks: "tls", "plain", or "ucx"; for the last, plain is measured instead
};

/// Returns the table and below it a hint for each finding. It ends with a line end.
[[nodiscard]] std::string links_text(const LinkFacts& facts);

/// Returns an object a line: {"link", "wire", "from", "to", "round_trip_us", "gbit_per_s", "other_wire",
/// "other_round_trip_us", "other_gbit_per_s", "problem"}.
[[nodiscard]] std::string links_json(const LinkFacts& facts);

/// Returns true if some hosts cannot reach each other.
[[nodiscard]] bool is_any_link_broken(const LinkFacts& facts);

}  // namespace lockstep::view

#pragma GCC visibility pop
