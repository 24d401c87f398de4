// SPDX-License-Identifier: Apache-2.0
// What every command line of Lockstep has in common: long options with '-' or '_', --help and --quiet, and for what is
// wrong one UsageError with the nearest valid spelling. Free of libtorch.
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

/// Sets up `app` with the habits above. Options show their variables' values as defaults; default_str() shows another.
void prepare(CLI::App& app, const CommandText& text);

/// Parses `arguments` (without the program's name). True: go on; false: help was printed.
/// Throws: UsageError naming the option, with the nearest one.
[[nodiscard]] bool parse(CLI::App& app, const std::vector<std::string>& arguments);

/// torchrun's spellings: "--nproc_per_node=a_b" is "--nproc-per-node=a_b". What is no long option stays as it is.
[[nodiscard]] std::string with_dashes(std::string word);

/// "--batch-size", ...: what an app knows.
[[nodiscard]] std::vector<std::string> option_names(const CLI::App& app);

/// Adds an option whose value is a number with a point before its decimals: CLI11's own conversion obeys the locale.
/// Example: cli::add_number(app, "--budget", budget, "try nothing new after this time")->check(cli::above_zero());
CLI::Option* add_number(CLI::App& app, const std::string& name, double& number, const std::string& help);
/// The same for a number that need not be given.
CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<double>& number, const std::string& help);

/// Checks an option whose value is a whole number: another value, or one outside of the range, is an error that names
/// both.
/// Example: app.add_option("--repeats", repeats, "counted runs")->check(cli::whole({1, 1000}));
[[nodiscard]] CLI::Validator whole(const WholeRange& range = {});

/// The same for numbers above 0.
[[nodiscard]] CLI::Validator above_zero();

/// The same for one of some words.
[[nodiscard]] CLI::Validator one_of(const std::vector<std::string>& words);

/// "--quiet": from here on this process and those that it starts print only results, warnings and errors. The
/// environment carries it; what LOCKSTEP_LOG says already stays.
void be_quiet();

/// "--log-level": the same for LOCKSTEP_LOG. Throws: UsageError where it is no level.
void set_log_level(const std::string& level);

/// What take_settings() is to look for.
struct SettingOptions {
  std::string set_option = "--set";                             ///< what stands in the place of a setting's own name
  std::function<bool(const std::string& name)> is_setting;      ///< by its name, with '_' where '-' was typed
  std::function<bool(const std::string& name)> is_switch = {};  ///< takes no value but a word such as "true"
};

/// Options that `app` does not have and that are settings, put in the form "--set NAME=VALUE" in their places:
/// "--layers 50", "--layers=50" and "--distributed" become "--set layers=50" and "--set distributed=true". A word
/// belongs to the option before it unless it begins with "--". Other options stay, for parse() to judge; after "--" all
/// words do.
[[nodiscard]] std::vector<std::string> take_settings(const CLI::App& app, const std::vector<std::string>& arguments,
                                                     const SettingOptions& options);

/// Writes to stdout what may hold words of files (names of classes, captions, keys): as they are, but for what would
/// steer a terminal (text::printable()).
void print(std::string_view text);
/// The same for JSON, which stays JSON: such characters as "\u009b".
void print_json(std::string_view json);

inline constexpr const char* kAllowOutside =
    "let lists and annotations name files outside their folder, by an absolute path or by ..";
inline constexpr const char* kMaxPixels = "refuse images with more pixels than this";
inline constexpr const char* kMaxPixelsDefault = "178956970";
inline constexpr const char* kSourceKinds = "auto|folder|classes|list|coco|voc|masks|tar|packed|idx";

/// A verb of a program: what it is called, one line about it, and what runs it (arguments after the verb).
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
