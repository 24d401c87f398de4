// SPDX-License-Identifier: Apache-2.0
// The habits of every Lockstep command line: long options with '-' or '_', --help, --quiet, and for a mistake one
// UsageError with the nearest valid spelling. Free of libtorch.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/help.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::cli {

/// Sets up `app` with the habits above. Options show the values of their variables as defaults, unless default_str()
/// gives another text.
void prepare(CLI::App& app, const CommandText& text);

/// Parses `arguments` (without the program's name). True: go on; false: help was printed.
/// Throws: UsageError naming the option, with the nearest one.
[[nodiscard]] bool parse(CLI::App& app, const std::vector<std::string>& arguments);

/// torchrun's spellings: "--nproc_per_node=a_b" is "--nproc-per-node=a_b". Other words stay as they are.
[[nodiscard]] std::string with_dashes(std::string word);

/// The long options of an app: "--batch-size", ...
[[nodiscard]] std::vector<std::string> option_names(const CLI::App& app);

/// Adds an option whose value is a number with a decimal point: CLI11's own conversion obeys the locale.
/// Example: cli::add_number(app, "--budget", budget, "try nothing new after this time")->check(cli::above_zero());
CLI::Option* add_number(CLI::App& app, const std::string& name, double& number, const std::string& help);
/// The same for an optional number.
CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<double>& number, const std::string& help);

/// Checks that an option's value is a whole number in the range. The error names the value and the range.
/// Example: app.add_option("--repeats", repeats, "counted runs")->check(cli::whole({1, 1000}));
[[nodiscard]] CLI::Validator whole(const WholeRange& range = {});

/// The same for numbers above 0.
[[nodiscard]] CLI::Validator above_zero();

/// The same for a choice of words.
[[nodiscard]] CLI::Validator one_of(const std::vector<std::string>& words);

/// "--quiet": from now on this process and its children print only results, warnings and errors. The environment
/// carries it; a LOCKSTEP_LOG that is already set stays.
void be_quiet();

/// "--log-level": the same for LOCKSTEP_LOG. Throws: UsageError if it is not a level.
void set_log_level(const std::string& level);

/// The words that take_settings() looks for.
struct SettingOptions {
  std::string set_option = "--set";                             ///< replaces a setting's own name
  std::function<bool(const std::string& name)> is_setting;      ///< takes the name, with '_' for each '-'
  std::function<bool(const std::string& name)> is_switch = {};  ///< takes no value, or a word such as "true"
};

/// Returns the arguments with each option that `app` lacks and that is a setting in the form "--set NAME=VALUE":
/// "--layers 50", "--layers=50" and "--distributed" become "--set layers=50" and "--set distributed=true". A word
/// belongs to the option before it unless it begins with "--". Other options stay for parse() to judge, and so do all
/// words after "--".
[[nodiscard]] std::vector<std::string> take_settings(const CLI::App& app, const std::vector<std::string>& arguments,
                                                     const SettingOptions& options);

/// Writes to stdout a text that may hold words of files (class names, captions, keys), without characters that steer a
/// terminal (text::printable()).
void print(std::string_view text);
/// The same for JSON: such characters become escapes like "\u009b".
void print_json(std::string_view json);

inline constexpr const char* kAllowOutside =
    "let lists and annotations name files outside their folder, by an absolute path or by ..";
inline constexpr const char* kMaxPixels = "refuse images with more pixels than this";
inline constexpr const char* kMaxPixelsDefault = "178956970";
inline constexpr const char* kSourceKinds = "auto|folder|classes|list|coco|voc|masks|tar|packed|idx";

/// A verb of a program: its name, one line about it, and the function that runs it with the arguments after the verb.
struct Verb {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& arguments);
};

/// Runs the verb of command `text` that `arguments` starts with; "" or --help lists them.
/// Throws: UsageError for an unknown verb, with the nearest one.
[[nodiscard]] int dispatch(const CommandText& text, const std::vector<Verb>& verbs,
                           const std::vector<std::string>& arguments);

}  // namespace lockstep::cli
