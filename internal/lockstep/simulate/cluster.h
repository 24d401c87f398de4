// SPDX-License-Identifier: Apache-2.0
// The machines of a plan: their number, their links, and the processor time per message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// A full-duplex link of one machine, or between the ranks inside it.
struct Link {
  double bytes_per_s = 0;  ///< rate of the payload in each direction; 0: unlimited
  double latency_s = 0;    ///< one-way latency

  /// Compares rate and latency.
  bool operator==(const Link&) const = default;
};

/// Parses "100Gb/5us": the line rate in bits (Kb, Mb, Gb, Tb) and the one-way latency (ns, us, ms, s). The result has
/// the payload rate: 1448 of 1583 bytes on an Ethernet line that is busy in both directions.
/// Throws: UsageError for any other form, a rate that is not above 0, or a latency below 0.
[[nodiscard]] Link parse_link(std::string_view text);

/// Returns "11.4 GB/s, 5 us": payload rate and one-way latency.
[[nodiscard]] std::string link_text(const Link& link);

/// The transport of gradients, named after the backends of comm.
enum class Backend {
  kAuto,          ///< shm on one machine, shm+tcp if machines have several ranks, else tcp
  kTcp,           ///< sockets from every rank to every rank
  kShm,           ///< shared memory of one machine
  kHierarchical,  ///< shm+tcp: one rank of each machine sends and receives for it
  kNccl           ///< rings or trees of GPUs
};

/// Parses "auto", "tcp", "shm", "shm+tcp" or "nccl". Throws: UsageError.
[[nodiscard]] Backend parse_backend(std::string_view text);
/// Returns the text that parse_backend() parses.
[[nodiscard]] std::string backend_text(Backend backend);

/// The measured time that a machine's processors spend on moving bytes; 0: none.
struct HostCosts {
  double message_s = 0;           ///< one rank's time for a message over a socket
  double socket_bytes_per_s = 0;  ///< rate of the payload through a rank's sockets, in each direction
  double reduce_bytes_per_s = 0;  ///< rate of an all_reduce in shared memory by `reduce_ranks` ranks
  int reduce_ranks = 2;           ///< the number of ranks in that measurement
  double copy_bytes_per_s = 0;    ///< rate at which one rank copies memory
};

/// The machines, which are all identical.
struct Cluster {
  int gpus = 1;                      ///< ranks of a machine
  int machines = 1;                  ///< machines
  Link network = {};                 ///< the link of each machine, which its ranks share
  Link local = {};                   ///< the link inside a machine, which its ranks share: loopback, PCIe or NVLink
  Backend backend = Backend::kAuto;  ///< the transport of gradients
  HostCosts host = {};               ///< the processors' time

  /// Returns the number of ranks.
  [[nodiscard]] int ranks() const { return gpus * machines; }
  /// Returns the backend that comm uses on these machines: kAuto is resolved, and an unusable backend is replaced.
  [[nodiscard]] Backend chosen() const;
};

}  // namespace lockstep::simulate

#pragma GCC visibility pop
