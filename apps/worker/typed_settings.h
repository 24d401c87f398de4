// SPDX-License-Identifier: Apache-2.0
// Settings given as options in addition to a verb's own options: --epochs 5, --batchsize 4, -u a=b c=d.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "worker/commands.h"

namespace lockstep::worker {

/// The word to give in place of RECIPE for the settings that all recipes share.
inline constexpr const char* kBase = "base";

/// The file of -c; empty: none.
[[nodiscard]] std::string file_word(const Arguments& arguments);

/// Converts settings given as options to --set, at the same positions, so that the last value of a name wins. The error
/// for an unknown option suggests the closest option or setting. `verb`: "lockstep train". Throws: UsageError.
[[nodiscard]] Arguments with_settings(const CLI::App& app, const std::string& verb, const Arguments& typed);

}  // namespace lockstep::worker
