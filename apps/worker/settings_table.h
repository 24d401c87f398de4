// SPDX-License-Identifier: Apache-2.0
// What is known of settings, as a table of Markdown, as JSON and in words: all of it from their rows.
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

struct TableChoice {
  /// Keys in the order of the rows: "epochs", "checkpoint.*", or @free (what may change at resume), @host (what the
  /// hosts of a run may have differently), @tune (what `lockstep tune` tries). Empty: all.
  std::vector<std::string> keys;
  bool rules = false;  ///< at resume, on hosts and by tune, instead of default, values and meaning
};

/// The settings as a table of Markdown. Throws: UsageError for a word of `choice.keys`
/// that no setting has.
[[nodiscard]] std::string markdown_of(const ConfigFields& fields, const TableChoice& choice);

/// The rows of `fields` that `base` does not have, or has with another value.
[[nodiscard]] std::vector<std::string> own_keys(const ConfigFields& fields, const ConfigFields& base);

/// "channels_last, threads and workers": the keys that `lockstep tune` may try.
[[nodiscard]] std::string tuned_words(const ConfigFields& fields);

}  // namespace lockstep::worker
