// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep::base {

/// Returns the file of the library or program that contains this code.
[[nodiscard]] std::filesystem::path this_binary();

}  // namespace lockstep::base
