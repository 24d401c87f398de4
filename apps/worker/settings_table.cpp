// SPDX-License-Identifier: Apache-2.0
#include "worker/settings_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/number.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"

namespace lockstep::worker {
namespace {

struct ResumeWords {
  const char* word;
  const char* text;  ///< text for the tables' column "on resume"
};

ResumeWords words_of(OnResume resume) {
  switch (resume) {
    case OnResume::kFree:
      return {"free", "free"};
    case OnResume::kFreeLength:
      return {"free_length", "free, unless the learning rate depends on the length of the run"};
    case OnResume::kFreeEvaluations:
      return {"free_evaluations", "free, unless plateau or a second stage follows the evaluations"};
    case OnResume::kFreeToBegin:
      return {"free_to_begin", "free if the checkpoint has no moving average yet"};
    case OnResume::kCheckpoint:
      return {"checkpoint", "the checkpoint's"};
    case OnResume::kError:
      break;
  }
  return {"error", "error"};
}

bool fits(const ConfigFields::Field& field, const std::string& wanted) {
  if (wanted == "@free") return field.resume != OnResume::kError;
  if (wanted == "@host") return field.host;
  if (wanted == "@tune") return field.tune;
  if (wanted.ends_with(".*")) return field.key.starts_with(wanted.substr(0, wanted.size() - 1));
  return field.key == wanted;
}

/// The text for a table cell, with "|" escaped.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

std::string row_of(const std::string& key, const std::string& second, const std::string& third,
                   const std::string& fourth) {
  return fmt::format("| {} | {} | {} | {} |\n", key, cell(second), cell(third), cell(fourth));
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

std::string values_of(const ConfigFields::Field& field) {
  if (field.choices.empty()) return field.allowed();
  std::vector<std::string> words;
  for (const std::string& choice : field.choices) words.push_back(code(choice));
  return text::join(words);
}

/// A value in JSON: numbers and booleans without quotes, all other values with quotes.
std::string json_value(const ConfigFields::Target& target) {
  if (const auto* list = std::get_if<std::vector<std::string>*>(&target)) {
    std::vector<std::string> quoted;
    for (const std::string& word : **list) quoted.push_back(text::json_quote(text::without_secrets(word)));
    return "[" + text::join(quoted) + "]";
  }
  const std::string text = ConfigFields::value_text(target);
  if (const auto* number = std::get_if<double*>(&target)) return text::json_number(**number);
  const bool is_auto = std::holds_alternative<AutoInt*>(target);
  const bool is_number = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const bool is_bare = std::holds_alternative<bool*>(target) || std::holds_alternative<std::int64_t*>(target);
  return is_bare || (is_auto && is_number) ? text : text::json_quote(text::without_secrets(text));
}

std::string help_of(const ConfigFields::Field& field) {
  return field.unused.empty() ? field.help : "no effect here: " + field.unused;
}

}  // namespace

std::string resume_word(OnResume resume) { return words_of(resume).word; }

std::string meaning_of(const ConfigFields::Field& field) {
  const bool says_more = field.range.has_value() || !field.choices.empty();
  return says_more ? fmt::format("{} ({})", help_of(field), field.allowed()) : help_of(field);
}

std::string json_of(const ConfigFields::Field& field) {
  return fmt::format(
      R"({{"key": {}, "value": {}, "origin": {}, "meaning": {}, "allowed": {}, "unit": {}, "resume": {}, "host": {}, )"
      R"("tune": {}}})",
      text::json_quote(field.key), json_value(field.target), text::json_quote(field.origin),
      text::json_quote(help_of(field)), text::json_quote(field.allowed()), text::json_quote(field.unit),
      text::json_quote(resume_word(field.resume)), field.host, field.tune);
}

SettingRows chosen_settings(const ConfigFields& fields, const std::vector<std::string>& words) {
  if (words.empty()) return fields.fields();
  for (const std::string& word : words) {
    const auto is_it = [&](const ConfigFields::Field& field) { return fits(field, word); };
    if (std::any_of(fields.fields().begin(), fields.fields().end(), is_it)) continue;
    throw UsageError(fmt::format("--keys: there is no setting {}", word));
  }
  SettingRows rows;
  for (const auto& field : fields.fields()) {
    const auto fits_it = [&](const std::string& word) { return fits(field, word); };
    if (std::any_of(words.begin(), words.end(), fits_it)) rows.push_back(field);
  }
  return rows;
}

std::string markdown_of(const SettingRows& rows, bool rules) {
  std::string table = rules ? "| key | on resume | on the hosts of a run | `lockstep tune` |\n|---|---|---|---|\n"
                            : "| key | default | values | meaning |\n|---|---|---|---|\n";
  for (const auto& field : rows) {
    table +=
        rules ? row_of(code(field.key), words_of(field.resume).text, field.host ? "may differ" : "equal",
                       field.tune ? "tries it" : "")
              : row_of(code(field.key), code(ConfigFields::value_text(field.target)), values_of(field), help_of(field));
  }
  return table;
}

std::vector<std::string> own_keys(const ConfigFields& fields, const ConfigFields& base) {
  std::vector<std::string> keys;
  for (const auto& field : fields.fields()) {
    const bool same = std::any_of(base.fields().begin(), base.fields().end(), [&](const ConfigFields::Field& other) {
      return other.key == field.key && other.unused == field.unused &&
             ConfigFields::value_text(other.target) == ConfigFields::value_text(field.target);
    });
    if (!same && field.key != "recipe") keys.push_back(field.key);
  }
  return keys;
}

std::string tuned_words(const ConfigFields& fields) {
  std::vector<std::string> keys;
  for (const auto& field : fields.fields()) {
    if (field.tune) keys.push_back(field.key);
  }
  if (keys.size() < 2) return text::join(keys);
  const std::string last = keys.back();
  keys.pop_back();
  return text::join(keys) + " and " + last;
}

}  // namespace lockstep::worker
