// SPDX-License-Identifier: Apache-2.0
// Settings that a person types as options, beside a verb's own: --epochs 5, --batchsize 4, -u a=b c=d.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "worker/commands.h"

namespace lockstep::worker {

/// Stands in RECIPE's place for what all recipes have.
inline constexpr const char* kBase = "base";

/// What -c names; empty: nothing.
[[nodiscard]] std::string file_word(const Arguments& arguments);

/// Settings that were typed as options become --set, in their places, so that the last one of a name wins. An unknown
/// option gets the nearest of options and settings. `verb`: "lockstep train". Throws: UsageError.
[[nodiscard]] Arguments with_settings(const CLI::App& app, const std::string& verb, const Arguments& typed);

}  // namespace lockstep::worker
