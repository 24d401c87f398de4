// SPDX-License-Identifier: Apache-2.0
// The machines of a plan: their number, their links, and the cost of a message for the processors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// A full-duplex link of one machine, or between the ranks inside of it.
struct Link {
  double bytes_per_s = 0;  ///< payload in each direction; 0: unlimited
  double latency_s = 0;    ///< one way

  /// Compares the figures.
  bool operator==(const Link&) const = default;
};

/// Parses "100Gb/5us": the rate of the line in bits (Kb, Mb, Gb, Tb) and the time of one way (ns, us, ms, s). The
/// result has the rate of the payload: 1448 of 1583 bytes of an Ethernet line whose directions are both busy.
/// Throws: UsageError for another form, a rate that is not above 0, and a time below 0.
[[nodiscard]] Link parse_link(std::string_view text);

/// Returns "11.4 GB/s, 5 us": payload and one way.
[[nodiscard]] std::string link_text(const Link& link);

/// The way that gradients travel, as in the backends of comm.
enum class Backend {
  kAuto,          ///< shm on one machine, shm+tcp if machines have several ranks, else tcp
  kTcp,           ///< every rank to every rank
  kShm,           ///< memory of one machine
  kHierarchical,  ///< shm+tcp: one rank of each machine sends and receives for it
  kNccl           ///< a ring or trees of GPUs
};

/// Parses "auto", "tcp", "shm", "shm+tcp" or "nccl". Throws: UsageError.
[[nodiscard]] Backend parse_backend(std::string_view text);
/// Returns the word that parse_backend() takes.
[[nodiscard]] std::string backend_text(Backend backend);

/// The cost of moving bytes for a machine's processors, as measured; 0: none.
struct HostCosts {
  double message_s = 0;           ///< time of one message over a socket, at one rank
  double socket_bytes_per_s = 0;  ///< payload through a rank's sockets, in each direction
  double reduce_bytes_per_s = 0;  ///< rate of an all_reduce in shared memory by `reduce_ranks` ranks
  int reduce_ranks = 2;           ///< the number of ranks in that measurement
  double copy_bytes_per_s = 0;    ///< rate at which one rank copies memory
};

/// The machines, all alike.
struct Cluster {
  int gpus = 1;                      ///< ranks of a machine
  int machines = 1;                  ///< machines
  Link network = {};                 ///< the link of each machine, which its ranks share
  Link local = {};                   ///< inside a machine: of loopback, PCIe or NVLink; its ranks share it
  Backend backend = Backend::kAuto;  ///< how gradients travel
  HostCosts host = {};               ///< the cost for the processors

  /// Returns the number of ranks.
  [[nodiscard]] int ranks() const { return gpus * machines; }
  /// Returns the backend that kAuto means here; for one that these machines cannot use, the one that comm uses instead.
  [[nodiscard]] Backend chosen() const;
};

}  // namespace lockstep::simulate

#pragma GCC visibility pop
