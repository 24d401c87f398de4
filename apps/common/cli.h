// SPDX-License-Identifier: Apache-2.0
// The conventions of every Lockstep command line: long options with '-' or '_', --help, --quiet, and, for a mistake, a
// single UsageError with the nearest valid spelling. Does not use libtorch.
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

/// Sets up `app` with these conventions. --help shows the values of the options' variables as defaults, unless
/// default_str() overrides them.
void prepare(CLI::App& app, const CommandText& text);

/// Parses `arguments` (without the program's name). Returns false if help was printed and the program should exit.
/// Throws: UsageError that names the option and suggests the closest match.
[[nodiscard]] bool parse(CLI::App& app, const std::vector<std::string>& arguments);

/// Converts torchrun's spellings: "--nproc_per_node=a_b" becomes "--nproc-per-node=a_b". Other arguments are unchanged.
[[nodiscard]] std::string with_dashes(std::string word);

/// The long options of an app: "--batch-size", ...
[[nodiscard]] std::vector<std::string> option_names(const CLI::App& app);

/// Adds an option whose value is a number with a decimal point. CLI11's own conversion would depend on the locale.
/// Example: cli::add_number(app, "--budget", budget, "try nothing new after this time")->check(cli::above_zero());
CLI::Option* add_number(CLI::App& app, const std::string& name, double& number, const std::string& help);
/// Does the same for an optional number.
CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<double>& number, const std::string& help);

/// Checks that an option's value is a whole number in the range. The error names the value and the range.
/// Example: app.add_option("--repeats", repeats, "counted runs")->check(cli::whole({1, 1000}));
[[nodiscard]] CLI::Validator whole(const WholeRange& range = {});

/// Checks that an option's value is a number above 0.
[[nodiscard]] CLI::Validator above_zero();

/// Checks that an option's value is one of `words`.
[[nodiscard]] CLI::Validator one_of(const std::vector<std::string>& words);

/// --quiet: from now on this process and its children print only results, warnings and errors. Sets LOCKSTEP_QUIET in
/// the environment, and LOCKSTEP_LOG unless it is already set.
void be_quiet();

/// --log-level: sets LOCKSTEP_LOG for this process and its children. Throws: UsageError if `level` is not a level.
void set_log_level(const std::string& level);

/// The options that take_settings() looks for.
struct SettingOptions {
  std::string set_option = "--set";                             ///< option to use in place of a setting's own name
  std::function<bool(const std::string& name)> is_setting;      ///< true for a setting's name, with '_' for each '-'
  std::function<bool(const std::string& name)> is_switch = {};  ///< true: needs no value
};

/// Returns the arguments; options that `app` lacks but that are settings are rewritten as "--set NAME=VALUE": "--layers
/// 50", "--layers=50" and "--distributed" become "--set layers=50" and "--set distributed=true". An argument belongs to
/// the option before it unless it begins with "--". Other options are left for parse(), as is everything after "--".
[[nodiscard]] std::vector<std::string> take_settings(const CLI::App& app, const std::vector<std::string>& arguments,
                                                     const SettingOptions& options);

/// Writes text that may contain strings from files (class names, captions, keys) to stdout, without terminal control
/// characters (text::printable()).
void print(std::string_view text);
/// Does the same for JSON: control characters become escapes like "\u009b".
void print_json(std::string_view json);

inline constexpr const char* kAllowOutside =
    "allow lists and annotations to refer to files outside their folder, by an absolute path or with ..";
inline constexpr const char* kMaxPixels = "reject images with more pixels than this";
inline constexpr const char* kMaxPixelsDefault = "178956970";
inline constexpr const char* kSourceKinds = "auto|folder|classes|list|coco|voc|masks|tar|packed|idx";

/// A verb of a program: its name, one line about it, and the function that runs it with the arguments after the verb.
struct Verb {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& arguments);
};

/// Runs the verb that `arguments` starts with. Lists the verbs if there is none, or if --help is given.
/// Throws: UsageError for an unknown verb; it suggests the closest match.
[[nodiscard]] int dispatch(const CommandText& text, const std::vector<Verb>& verbs,
                           const std::vector<std::string>& arguments);

}  // namespace lockstep::cli
