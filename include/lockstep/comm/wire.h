// SPDX-License-Identifier: Apache-2.0
// The wire: how bytes are sent between hosts.
#pragma once

#pragma GCC visibility push(default)

namespace lockstep {

/// How the `tcp` backend sends data between hosts. kAuto means kTls.
enum class Wire {
  kAuto,
  kTls,    ///< encrypted (TLS 1.3), with keys derived from the job's secret
  kPlain,  ///< in the clear, for a private network
  kUcx     ///< UCX, in the clear: for InfiniBand and RoCE
};

}  // namespace lockstep

#pragma GCC visibility pop
