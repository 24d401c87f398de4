// SPDX-License-Identifier: Apache-2.0
#include "common/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "lockstep/base/split.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kWidestLeft = 26;   // a longer entry has its description on the next line
constexpr std::size_t kTiedDefault = 32;  // a default of at most this many characters stays on one line
constexpr std::size_t kIndent = 2;
constexpr char kTie = '\x1f';  // a non-breaking space

/// The words of a command line. A quoted string counts as one word, as does an option with its value.
std::vector<std::string> split_command(std::string_view command) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == '\'') quoted = !quoted;
    const bool is_value = words.back().starts_with("--") && words.back().find(' ') == std::string::npos &&
                          i + 1 < command.size() && command[i + 1] != '-';
    if (c == ' ' && !quoted && !is_value) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

std::string tied(std::string text) {
  std::replace(text.begin(), text.end(), ' ', kTie);
  return text;
}

std::vector<std::string> wrapped(const std::vector<std::string>& words, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > width) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  for (std::string& line : lines) std::replace(line.begin(), line.end(), kTie, ' ');
  return lines;
}

std::string paragraphs(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", at), text.size());
    if (!out.empty()) out += "\n";
    for (const std::string& line : wrapped(text::split_words(text.substr(at, end - at)), kHelpWidth))
      out += line + "\n";
    at = end + 2;
  }
  return out;
}

std::string row_text(const std::string& left, const std::string& right, std::size_t column) {
  std::string out(kIndent, ' ');
  out += left;
  if (out.size() + 2 > column)
    out += "\n" + std::string(column, ' ');
  else
    out.resize(column, ' ');
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= right.size();) {
    const std::size_t end = std::min(right.find('\n', at), right.size());
    for (std::string& line :
         wrapped(text::split_words(std::string_view(right).substr(at, end - at)), kHelpWidth - column)) {
      lines.push_back(std::move(line));
    }
    at = end + 1;
  }
  return out + text::join(lines, "\n" + std::string(column, ' ')) + "\n";
}

/// A command, split over several lines with shell backslashes.
std::string example_text(const std::string& command) {
  const std::vector<std::string> lines = wrapped(split_command(command), kHelpWidth - 8);
  return "  " + text::join(lines, " \\\n      ") + "\n";
}

bool takes_several(const CLI::Option& option) { return option.get_expected_max() > 1; }

/// The value of an option: "PATH", "[FILE]", "N ..."; empty for a switch.
std::string value_text(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "";
  const std::string name = option.get_type_name();
  if (option.get_expected_min() == 0) return "[" + name + "]";
  return takes_several(option) && option.get_allow_extra_args() ? name + " ..." : name;
}

std::string option_left(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const std::string value = value_text(option);
  return text::join(names) + (value.empty() ? "" : " " + value);
}

std::string option_right(const CLI::Option& option) {
  std::string text = option.get_description();
  if (option.get_required()) return option.get_positional() ? text : "(required) " + text;
  const std::string value = option.get_default_str();
  const bool is_shown = !value.empty() && value != "[]" && option.get_expected_max() > 0;
  if (!is_shown) return text;
  const std::string note = fmt::format("(default: {})", value);
  return text + " " + (note.size() <= kTiedDefault ? tied(note) : note);
}

Rows rows_of(const std::vector<const CLI::Option*>& options) {
  Rows rows;
  for (const CLI::Option* option : options) rows.emplace_back(option_left(*option), option_right(*option));
  return rows;
}

bool is_for_every_verb(const CLI::Option* option) {
  return option->check_lname("help") || option->check_lname("quiet") || option->check_lname("log-level");
}

/// The groups of the options, "Options" first, with --quiet and --help at its end.
std::vector<HelpSection> option_sections(const CLI::App& app) {
  std::vector<std::string> groups = app.get_groups();
  std::stable_partition(groups.begin(), groups.end(), [](const std::string& name) { return name == kMoreOptions; });
  std::vector<HelpSection> sections;
  for (const std::string& group : groups) {
    std::vector<const CLI::Option*> options = app.get_options([&](const CLI::Option* option) {
      return !group.empty() && option->get_group() == group && option->nonpositional();
    });
    if (options.empty()) continue;
    std::stable_partition(options.begin(), options.end(), [](auto* option) { return !is_for_every_verb(option); });
    sections.push_back({group, rows_of(options)});
  }
  return sections;
}

std::vector<const CLI::Option*> positionals(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::string usage_words(const CLI::App& app) {
  std::string words = "[OPTIONS]";
  for (const CLI::Option* option : positionals(app)) {
    const std::string name = option->get_name(true) + (takes_several(*option) ? "..." : "");
    words += option->get_required() ? " " + name : " [" + name + "]";
  }
  return words;
}

std::size_t column_of(const std::vector<HelpSection>& sections) {
  std::size_t widest = 12;
  for (const HelpSection& section : sections) {
    for (const auto& [left, right] : section.rows) {
      if (left.size() <= kWidestLeft) widest = std::max(widest, left.size());
    }
  }
  return kIndent + widest + 2;
}

std::string section_text(const HelpSection& section, std::size_t column) {
  std::string out = "\n" + section.title + ":\n";
  for (const auto& [left, right] : section.rows) out += row_text(left, right, column);
  return out;
}

std::string page(const CommandText& text, const std::string& usage, const std::vector<HelpSection>& sections) {
  std::vector<HelpSection> all = sections;
  all.insert(all.end(), text.tables.begin(), text.tables.end());
  const std::size_t column = column_of(all);
  std::string out = paragraphs(text.description) + fmt::format("\nUsage: {} {}\n", text.name, usage);
  for (const HelpSection& section : sections) out += section_text(section, column);
  for (const std::string& note : text.notes) out += "\n" + paragraphs(note);
  for (const HelpSection& table : text.tables) out += section_text(table, column);
  out += "\nExamples:\n";
  for (const std::string& example : text.examples) out += example_text(example);
  return out;
}

}  // namespace

std::string help_text(const CLI::App& app, const CommandText& text) {
  std::vector<HelpSection> sections;
  if (const auto arguments = positionals(app); !arguments.empty()) {
    sections.push_back({"Arguments", rows_of(arguments)});
  }
  sections.insert(sections.end(), text.lists.begin(), text.lists.end());
  for (HelpSection& section : option_sections(app)) sections.push_back(std::move(section));
  return page(text, text.usage.empty() ? usage_words(app) : text.usage, sections);
}

std::string verbs_text(const CommandText& text, const Rows& verbs, const Rows& options) {
  return page(text, "VERB [OPTIONS]", {{"Verbs", verbs}, {kMoreOptions, options}}) +
         fmt::format("\nRun '{} VERB --help' for the options of a verb.\n", text.name);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string /*name*/, CLI::AppFormatMode /*mode*/) const {
  return help_text(*app, text_);
}

}  // namespace lockstep::cli
