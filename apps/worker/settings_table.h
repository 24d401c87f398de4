// SPDX-License-Identifier: Apache-2.0
// Shows settings as a Markdown table, as JSON and as text, all from the rows of ConfigFields.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/config.h"

namespace lockstep::worker {

/// The word for OnResume in JSON: "free", "error", ...
[[nodiscard]] std::string resume_word(OnResume resume);

/// The meaning with the allowed values: "loader threads per replica (0 .. 4,096 threads)".
[[nodiscard]] std::string meaning_of(const ConfigFields::Field& field);

/// One JSON object for a setting.
[[nodiscard]] std::string json_of(const ConfigFields::Field& field);

using SettingRows = std::vector<ConfigFields::Field>;

/// The rows that the words select: "epochs", "checkpoint.*", @free (may change on resume), @host (may differ between
/// the hosts of a run), @tune (tried by `lockstep tune`). Without words it returns all rows.
/// Throws: UsageError for a word that does not select a setting.
[[nodiscard]] SettingRows chosen_settings(const ConfigFields& fields, const std::vector<std::string>& words);

/// A Markdown table with the default, the allowed values and the meaning of each setting; if `rules` is true, with the
/// rules for resume, hosts and tune instead.
[[nodiscard]] std::string markdown_of(const SettingRows& rows, bool rules);

/// The keys that `base` lacks or for which it has a different value.
[[nodiscard]] std::vector<std::string> own_keys(const ConfigFields& fields, const ConfigFields& base);

/// The keys that `lockstep tune` may try, as in "channels_last, threads and workers".
[[nodiscard]] std::string tuned_words(const ConfigFields& fields);

}  // namespace lockstep::worker
