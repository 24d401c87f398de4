// SPDX-License-Identifier: Apache-2.0
// The recipes' settings that name a run's folder (each recipe's start_words.h).
#pragma once

#include <string>
#include <vector>

#include "run_choice.h"

namespace lockstep::apps {

/// Without --run-dir, sets it to the folder that a setting in `arguments` or in the settings file `file` names.
/// `--resume 27` becomes `--resume none` if 27 refers to weights of the original program; a rank loads those.
void take_folders_of_recipes(const std::vector<std::string>& arguments, const std::string& file, RunRequest& request);

}  // namespace lockstep::apps
