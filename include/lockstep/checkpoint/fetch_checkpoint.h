// SPDX-License-Identifier: Apache-2.0
// Checkpoints by URL.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/checkpoint/fetch.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Fetches the step folder that a server shows under `url` (".../checkpoints/step-00001200"): its manifest.json, then
/// each file that this names, each byte of which is verified.
///
/// Returns: a step folder in the cache, whole. What is there is not fetched again.
/// Blocks:  until it is there. A job of several ranks lets one of them call it.
/// Throws:  DataError where there is no manifest, or what came is not what it says; as fetch().
[[nodiscard]] std::filesystem::path fetch_checkpoint(const std::string& url, const FetchOptions& options = {});

}  // namespace lockstep

#pragma GCC visibility pop
