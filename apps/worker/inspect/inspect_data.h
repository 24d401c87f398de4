// SPDX-License-Identifier: Apache-2.0
// `lockstep inspect data`: what is in a set, as counts, and how it looks, as a contact sheet.
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/survey.h"
#include "worker/commands.h"

namespace lockstep::worker {

int inspect_data(const Arguments& arguments);

/// The counts of a set for a person: a line about all, a table of sizes, bars of classes, what cannot be read, and
/// remarks. Pure function.
[[nodiscard]] std::string survey_text(const std::string& name, const Survey& survey,
                                      const std::vector<std::string>& class_names,
                                      const std::vector<std::string>& remarks = {});

/// The same as one JSON object. Pure function.
[[nodiscard]] std::string survey_json(const std::string& name, const Survey& survey,
                                      const std::vector<std::string>& class_names,
                                      const std::vector<std::string>& remarks = {});

}  // namespace lockstep::worker
