// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep::base {

/// Returns the library or the program that this code was linked into.
[[nodiscard]] std::filesystem::path this_binary();

}  // namespace lockstep::base
