// SPDX-License-Identifier: Apache-2.0
// The --help of options that start ranks. `lockstep` removes these options before lockstep-worker reads its own, and
// both programs describe them in the same words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "lockstep/launch/train_options.h"

namespace lockstep::cli {

inline const std::string kRanks{kRanksGroup};

/// The names of an option in CLI11's form, such as "-d,--device".
[[nodiscard]] std::string option_names_of(const TrainOption& option);

/// Describes an option of `lockstep train` from its row in train_options(). If `app` lacks the option, adds it only for
/// the help. Returns the option.
CLI::Option* describe(CLI::App& app, const std::string& name);

/// Describes --nproc-per-node; `fallback` is the default in --help.
void describe_processes(CLI::App& app, const std::string& fallback = "1");

/// Describes the options of kNodesGroup.
void describe_nodes(CLI::App& app);

}  // namespace lockstep::cli
