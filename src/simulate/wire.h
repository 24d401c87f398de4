// SPDX-License-Identifier: Apache-2.0
// The duration of a phase's messages between ranks that begin the phase at different times.
#pragma once

#include <array>
#include <vector>

#include "lockstep/simulate/cluster.h"
#include "simulate/collective_phases.h"

namespace lockstep::simulate {

/// The connections of a cluster. All ranks send in the same way, so one connection represents all connections of a kind
/// of phase. Its window grows while it limits the speed, and shrinks while nothing is sent, as in TCP.
class Wire {
 public:
  explicit Wire(const Cluster& cluster) : cluster_(cluster) {}

  /// Runs a phase. On entry, `times` has each rank's start of the phase; on return, its end.
  void run(const Phase& phase, std::vector<double>& times);

 private:
  struct Connection {
    double window = 0;     ///< bytes; 0: not used yet
    double last_used = 0;  ///< seconds
  };

  void exchange(const Phase& phase, std::vector<double>& times, bool leaders);
  void pass_on(const Phase& phase, std::vector<double>& times, bool leaders);
  void send_from_root(const Phase& phase, std::vector<double>& times, bool leaders);
  void meet(const Phase& phase, std::vector<double>& times) const;
  void run_on_devices(const Phase& phase, std::vector<double>& times) const;
  [[nodiscard]] double way() const;  ///< time of a message between two ranks, in seconds
  [[nodiscard]] double transfer(const Phase& phase, int flows, double now);
  [[nodiscard]] double on_sockets(const Phase& phase, int messages) const;

  Cluster cluster_;
  std::array<Connection, 6> connections_ = {};  ///< connections by Among
};

}  // namespace lockstep::simulate
