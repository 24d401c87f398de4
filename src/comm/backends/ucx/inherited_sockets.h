// SPDX-License-Identifier: Apache-2.0
// UCX makes its sockets inheritable: programs that a rank starts would keep its connections and its port open after its
// end.
#pragma once

#include <set>

namespace lockstep::comm {

class InheritedSockets {
 public:
  /// Notes the existing sockets: they do not belong to UCX.
  InheritedSockets();
  /// Makes programs that start from now on close the sockets made since then.
  void keep_back() const noexcept;

 private:
  std::set<int> others_;
};

}  // namespace lockstep::comm
