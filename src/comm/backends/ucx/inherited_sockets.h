// SPDX-License-Identifier: Apache-2.0
// UCX makes its sockets so that programs which a rank starts inherit them: these would hold its connections and its
// port beyond its end.
#pragma once

#include <set>

namespace lockstep::comm {

class InheritedSockets {
 public:
  /// What is there already is somebody else's.
  InheritedSockets();
  /// Keeps the sockets that have come since from programs that start from now on.
  void keep_back() const noexcept;

 private:
  std::set<int> others_;
};

}  // namespace lockstep::comm
