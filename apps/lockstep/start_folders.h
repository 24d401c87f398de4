// SPDX-License-Identifier: Apache-2.0
// Settings of the recipes that say in which folder a run is: each recipe's start_words.h names them.
#pragma once

#include <string>
#include <vector>

#include "run_choice.h"

namespace lockstep::apps {

/// Fills in what was not typed as --run-dir: the folder that a setting in `arguments` or in the settings file `file`
/// names. `--resume 27` becomes none where it means weights that the origin kept: a rank takes those.
void take_folders_of_recipes(const std::vector<std::string>& arguments, const std::string& file, RunRequest& request);

}  // namespace lockstep::apps
