// SPDX-License-Identifier: Apache-2.0
// Parses the bytes of IDX files, plain or gzipped, as untrusted input. No torch header.
#pragma once

#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/data/sources/idx.h"

namespace lockstep::data {

inline constexpr std::int64_t kMaxIdxBytes = std::int64_t{8} << 30;

[[nodiscard]] Result<IdxFile> parse_idx(std::string_view file);

}  // namespace lockstep::data
