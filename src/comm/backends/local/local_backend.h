// SPDX-License-Identifier: Apache-2.0
// The backend of a world of one rank, which never waits.
#pragma once

#include <memory>

#include "comm/core/backend.h"

namespace lockstep::comm {

/// Creates the backend of a world of one: a mean divides by its divisor, and all other collectives copy.
[[nodiscard]] std::unique_ptr<Backend> make_local_backend();

}  // namespace lockstep::comm
