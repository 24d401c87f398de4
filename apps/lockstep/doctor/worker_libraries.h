// SPDX-License-Identifier: Apache-2.0
// Where lockstep-worker finds its libraries: this program is linked without libtorch, beside which NCCL may lie.
#pragma once

#include <string>

#include "lockstep/base/nccl_library.h"

namespace lockstep::apps {

/// Reads what the system's loader would load for a program: lines such as "libc10.so => /opt/torch/lib/libc10.so
/// (0x7f...)". Returns the search of that program, without what the environment says. It is a pure function.
[[nodiscard]] nccl::Search search_in(const std::string& loaded);

/// Returns where lockstep-worker looks for NCCL. Where the loader does not say, that is the system's place.
/// Cost: some 50 ms; nothing of the worker runs.
[[nodiscard]] nccl::Search search_of_worker();

}  // namespace lockstep::apps
