// SPDX-License-Identifier: Apache-2.0
// The options that start ranks, for --help: `lockstep` takes them away before lockstep-worker reads its own, and both
// describe them in these words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "lockstep/launch/train_options.h"

namespace lockstep::cli {

inline const std::string kRanks{kRanksGroup};

/// "-d,--device", as CLI11 takes it.
[[nodiscard]] std::string option_names_of(const TrainOption& option);

/// Describes an option of a training by its row of train_options(). If `app` does not have the option, this adds it for
/// the help alone. Returns the option.
CLI::Option* describe(CLI::App& app, const std::string& name);

/// --nproc-per-node; `fallback` is what --help calls its default.
void describe_processes(CLI::App& app, const std::string& fallback = "1");

/// Those of kNodesGroup.
void describe_nodes(CLI::App& app);

}  // namespace lockstep::cli
