// SPDX-License-Identifier: Apache-2.0
// Settings as a Markdown table, as JSON and in words, all from their rows.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/config.h"

namespace lockstep::worker {

/// "free", "error", ...: the word for OnResume in JSON.
[[nodiscard]] std::string resume_word(OnResume resume);

/// The meaning with the values that are allowed: "loader threads per replica (0 .. 4,096 threads)".
[[nodiscard]] std::string meaning_of(const ConfigFields::Field& field);

/// One object of JSON for a setting.
[[nodiscard]] std::string json_of(const ConfigFields::Field& field);

using SettingRows = std::vector<ConfigFields::Field>;

/// The rows that the words select: "epochs", "checkpoint.*", @free (may change at resume), @host (may differ between
/// the hosts of a run), @tune (tried by `lockstep tune`). No words: all.
/// Throws: UsageError for a word that no setting has.
[[nodiscard]] SettingRows chosen_settings(const ConfigFields& fields, const std::vector<std::string>& words);

/// A Markdown table: default, values and meaning, or with `rules` what may change at resume, on hosts and by tune.
[[nodiscard]] std::string markdown_of(const SettingRows& rows, bool rules);

/// The keys that `base` lacks, or has with another value.
[[nodiscard]] std::vector<std::string> own_keys(const ConfigFields& fields, const ConfigFields& base);

/// "channels_last, threads and workers": the keys that `lockstep tune` may try.
[[nodiscard]] std::string tuned_words(const ConfigFields& fields);

}  // namespace lockstep::worker
