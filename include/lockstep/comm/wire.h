// SPDX-License-Identifier: Apache-2.0
// How bytes travel between hosts.
#pragma once

#pragma GCC visibility push(default)

namespace lockstep {

/// How the backend `tcp` carries the bytes between hosts. kAuto is kTls.
enum class Wire {
  kAuto,
  kTls,    ///< encrypted (TLS 1.3), with keys made from the job's secret
  kPlain,  ///< in the clear, for a network of one's own
  kUcx     ///< by UCX, in the clear: InfiniBand and RoCE
};

}  // namespace lockstep

#pragma GCC visibility pop
