// SPDX-License-Identifier: Apache-2.0
// The text of --help in one layout for every verb: a sentence, the usage, arguments, options by group, examples.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {

/// Rows of two columns under a title; "\n" begins a line of the second column.
struct HelpSection {
  std::string title;
  std::vector<std::pair<std::string, std::string>> rows;
};

/// The contents of a command's --help, apart from its options.
struct CommandText {
  std::string name;                      ///< the command, such as "lockstep train"
  std::string description;               ///< a sentence in the imperative; "\n\n" begins another paragraph
  std::vector<std::string> examples;     ///< whole command lines
  std::string usage = {};                ///< arguments after the name; empty: "[OPTIONS]" and the positional arguments
  std::vector<HelpSection> lists = {};   ///< lists between the arguments and the options
  std::vector<std::string> notes = {};   ///< paragraphs after the options
  std::vector<HelpSection> tables = {};  ///< tables after the notes
};

inline constexpr const char* kHelp = "print this help";
inline constexpr std::size_t kHelpWidth = 100;          ///< columns
inline constexpr const char* kMoreOptions = "Options";  ///< the group of options without a group

/// The text of --help. It shows an option's type name as its value, and its default string as its default.
[[nodiscard]] std::string help_text(const CLI::App& app, const CommandText& text);

/// The --help text of a command with verbs, given as (name, summary).
[[nodiscard]] std::string verbs_text(const CommandText& text,
                                     const std::vector<std::pair<std::string, std::string>>& verbs,
                                     const std::vector<std::pair<std::string, std::string>>& options);

/// Makes `app` print help_text() with `text`.
class HelpFormatter final : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(CommandText text) : text_(std::move(text)) {}
  [[nodiscard]] std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  [[nodiscard]] const CommandText& text() const noexcept { return text_; }

 private:
  CommandText text_;
};

}  // namespace lockstep::cli
