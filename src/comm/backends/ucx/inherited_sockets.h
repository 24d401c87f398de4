// SPDX-License-Identifier: Apache-2.0
// Closes UCX's sockets in programs that a rank starts. UCX makes its sockets inheritable, so such programs would keep
// the rank's connections and port open after it has exited.
#pragma once

#include <set>

namespace lockstep::comm {

class InheritedSockets {
 public:
  /// Records the existing sockets, which do not belong to UCX.
  InheritedSockets();
  /// Makes sockets created since construction close in programs started from now on.
  void keep_back() const noexcept;

 private:
  std::set<int> others_;
};

}  // namespace lockstep::comm
