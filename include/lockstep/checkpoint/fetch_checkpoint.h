// SPDX-License-Identifier: Apache-2.0
// Fetches checkpoints by URL.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/checkpoint/fetch.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Fetches the step folder under `url` (".../checkpoints/step-00001200"): first its manifest.json, then each file that
/// the manifest names. Every byte is verified.
///
/// Returns: the path of the whole step folder in the cache. Existing files are not fetched again.
/// Blocks:  until it is there. In a job of several ranks, let one rank on each host call it.
/// Throws:  DataError if there is no manifest, or a file does not match it; anything fetch() throws.
[[nodiscard]] std::filesystem::path fetch_checkpoint(const std::string& url, const FetchOptions& options = {});

}  // namespace lockstep

#pragma GCC visibility pop
