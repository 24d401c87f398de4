// SPDX-License-Identifier: Apache-2.0
// Checkpoints by URL.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/checkpoint/fetch.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Blocks:  until it is there. In a job of several ranks, let one of them call it.
[[nodiscard]] std::filesystem::path fetch_checkpoint(const std::string& url, const FetchOptions& options = {});

}  // namespace lockstep

#pragma GCC visibility pop
