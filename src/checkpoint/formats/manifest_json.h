// SPDX-License-Identifier: Apache-2.0
// Writes and reads manifest.json. Its last line holds a hash (the seal) of the lines above it, so that a flipped bit in
// the manifest itself is also detected. It parses untrusted bytes, and does so without libtorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/checkpoint/manifest.h"

namespace lockstep::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr std::uint64_t kMaxManifestBytes = 16U << 20U;
inline constexpr std::int64_t kFormatVersion = 1;
inline constexpr std::int64_t kShardedFormatVersion = 2;  ///< each state is split into parts

/// Returns the problem with an impossible value ("'threads' is -1; valid values are 1 to 4096"); "" if there is none.
[[nodiscard]] std::string manifest_problem(const Manifest& manifest);

/// Returns the text of manifest.json; equal manifests give equal text.
[[nodiscard]] std::string manifest_to_json(const Manifest& manifest);

/// Parses a manifest. Fails if the seal does not match the text, a field is missing or has the wrong type, a file name
/// leads out of the folder, a value is impossible (manifest_problem), or the format is newer than this program.
[[nodiscard]] Result<Manifest> manifest_from_json(std::string_view text);

}  // namespace lockstep::checkpoint
