// SPDX-License-Identifier: Apache-2.0
// Finds the libraries of lockstep-worker: NCCL may be in libtorch's folder, which this program does not link.
#pragma once

#include <string>

#include "lockstep/base/nccl_library.h"

namespace lockstep::apps {

/// Reads the loader's list of a program's libraries, lines such as "libc10.so => /opt/torch/lib/libc10.so (0x7f...)".
/// Returns that program's search path for NCCL, without what the environment adds. Pure function.
[[nodiscard]] nccl::Search search_in(const std::string& loaded);

/// Returns lockstep-worker's search path for NCCL, or the system's if the loader lists nothing.
/// Cost: about 50 ms; the worker's own code does not run.
[[nodiscard]] nccl::Search search_of_worker();

}  // namespace lockstep::apps
