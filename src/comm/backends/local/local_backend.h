// SPDX-License-Identifier: Apache-2.0
// The backend of a world of one rank: it copies, and never waits.
#pragma once

#include <memory>

#include "comm/core/backend.h"

namespace lockstep::comm {

/// The backend of a world of one: reductions divide, moves copy.
[[nodiscard]] std::unique_ptr<Backend> make_local_backend();

}  // namespace lockstep::comm
