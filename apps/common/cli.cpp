// SPDX-License-Identifier: Apache-2.0
#include "common/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/number.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr const char* kQuiet = "print only results, warnings and errors";
constexpr const char* kLogLevel = "error, warn, note, info, debug or trace";

std::string hint(const CLI::App& app) { return app.get_name() + " --help"; }

// The hint about --help with an example, for a command that lacks an argument.
std::string hint_with_example(const CLI::App& app) {
  const auto formatter = std::dynamic_pointer_cast<HelpFormatter>(app.get_formatter());
  if (!formatter || formatter->text().examples.empty()) return hint(app);
  return fmt::format("{}\n  for example  {}", hint(app), formatter->text().examples.front());
}

UsageError unknown(const CLI::App& app, const std::string& argument) {
  if (!argument.starts_with("-")) {
    return UsageError(fmt::format("{}: unexpected argument '{}'", app.get_name(), argument), hint(app));
  }
  const std::string word = argument.substr(0, argument.find('='));
  return UsageError(
      fmt::format("{}: unknown option '{}'{}", app.get_name(), word, text::did_you_mean(word, option_names(app))),
      hint(app));
}

// The error "RECIPE is missing" or "--seed and --epoch are missing".
UsageError missing(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required() && option->count() == 0) names.push_back(option->get_name());
  }
  const char* verb = names.size() == 1 ? "is" : "are";
  const std::string last = names.empty() ? "something" : names.back();
  if (!names.empty()) names.pop_back();
  const std::string list = names.empty() ? last : text::join(names) + " and " + last;
  return UsageError(fmt::format("{}: {} {} missing", app.get_name(), list, verb), hint_with_example(app));
}

// CLI11's message names the option, but the count in the message is not the number of arguments given.
UsageError mismatch(const CLI::App& app, const std::string& problem) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (name.empty() || problem.find(name + ":") != 0) continue;
    const std::string said = fmt::format("{} needs a value: {}", name, option->get_type_name());
    return UsageError(fmt::format("{}: {}", app.get_name(), said), hint(app));
  }
  return UsageError(fmt::format("{}: {}", app.get_name(), problem), hint(app));
}

// CLI11 says "Could not convert: --seed = x"; only numbers are converted.
UsageError wrong_number(const CLI::App& app, const std::string& problem) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string start = fmt::format("Could not convert: {} = ", option->get_name());
    if (option->get_name().empty() || !problem.starts_with(start)) continue;
    return UsageError(
        fmt::format("{}: {}: '{}' is not a number", app.get_name(), option->get_name(), problem.substr(start.size())),
        hint(app));
  }
  return UsageError(fmt::format("{}: {}", app.get_name(), problem), hint(app));
}

// The first long option that the app does not have; "" if it has all options.
std::string first_unknown(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::vector<std::string> known = option_names(app);
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    std::string word = with_dashes(argument.substr(0, argument.find('=')));
    if (word.rfind("--", 0) == 0 && std::find(known.begin(), known.end(), word) == known.end()) return word;
  }
  return "";
}

bool is_bool(const std::string& word) {
  return word == "true" || word == "false" || word == "True" || word == "False" || word == "1" || word == "0";
}

// If an option is given twice, the last occurrence wins, as in argparse: a script may append options to a command.
void take_last(CLI::App& app) {
  for (CLI::Option* option : app.get_options({})) {
    const bool is_single = option->get_expected_max() == 1 && !option->get_positional();
    if (is_single) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

/// Checks environment variables: since version 2.4, CLI11 silently ignores a variable with an invalid value. Throws:
/// CLI11's error for the option itself.
void take_wrong_variables(CLI::App& app) {
  for (CLI::Option* option : app.get_options({})) {
    const std::string name = option->get_envname();
    if (name.empty() || option->count() > 0) continue;
    const std::string value = env::get(name.c_str()).value_or("");
    if (value.empty()) continue;
    option->add_result(value);
    option->run_callback();
  }
}

/// Rejects empty values: an empty argument is usually a shell variable that was never set. If it counted as an absent
/// option, the run would start without its hosts or its certificate.
void require_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const bool needs_value = option->get_expected_min() > 0 && option->count() > 0;
    const std::vector<std::string> words = needs_value ? option->results() : std::vector<std::string>{};
    const bool has_empty = std::find(words.begin(), words.end(), "") != words.end();
    if (has_empty && !option->check_lname("log-line-prefix-template")) {
      throw UsageError(fmt::format("{}: the value of {} is empty", app.get_name(), option->get_name()),
                       fmt::format("omit it, or pass {}", option->get_type_name()));
    }
  }
}

template <class Number>
CLI::Option* add_number_into(CLI::App& app, const std::string& name, Number& number, const std::string& help) {
  const CLI::callback_t take = [&number](const CLI::results_t& words) {
    const auto value = text::parse_number(words.back());
    if (value) number = *value;
    return value.has_value();
  };
  return app.add_option(name, take, help);
}

/// Rejects "--set epochs 5", which CLI11 reads as an option and a stray argument, and the form that -u turns it into,
/// "--set epochs --set 5". Throws: UsageError with the assignment that was meant.
void require_assignments(const CLI::App& app, const std::vector<std::string>& arguments) {
  constexpr std::string_view kSet = "--set";
  const auto is_value = [](const std::string& word) { return !word.starts_with("-") && word.find('=') == word.npos; };
  for (std::size_t i = 0; i + 2 < arguments.size() && arguments[i] != "--"; ++i) {
    if (arguments[i] != kSet || !is_value(arguments[i + 1])) continue;
    const std::size_t next = arguments[i + 2] == kSet ? i + 3 : i + 2;
    if (next >= arguments.size() || !is_value(arguments[next])) continue;
    throw UsageError(
        fmt::format("{}: --set '{}' is not an assignment", app.get_name(), arguments[i + 1]),
        fmt::format("write key and value as one argument: --set {}={}", arguments[i + 1], arguments[next]));
  }
}

}  // namespace

void print(std::string_view text) { write_to(stdout, text::printable(text)); }

void print_json(std::string_view json) {
  std::string out;
  for (std::size_t at = 0; at < json.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(json[at + i]); };
    const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
    const std::string_view letter = json.substr(at, length);
    at += letter.size();
    if (text::printable(letter) == letter) {
      out += letter;
      continue;
    }
    // Control characters: DEL and C1, and text direction marks; up to three bytes.
    const auto tail = [&](std::size_t i) { return static_cast<unsigned>(letter[i]) & 0x3FU; };
    const unsigned code = letter.size() == 1   ? static_cast<unsigned char>(letter[0])
                          : letter.size() == 2 ? (static_cast<unsigned>(letter[0]) & 0x1FU) << 6U | tail(1)
                          : letter.size() == 3
                              ? (static_cast<unsigned>(letter[0]) & 0x0FU) << 12U | tail(1) << 6U | tail(2)
                              : 0xFFFDU;
    out += fmt::format("\\u{:04x}", code);
  }
  write_to(stdout, out);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string with_dashes(std::string word) {
  if (word.rfind("--", 0) != 0) return word;
  const std::size_t end = std::min(word.find('='), word.size());
  std::replace(word.begin() + 2, word.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return word;
}

void be_quiet() {
  ::setenv("LOCKSTEP_QUIET", "1", 1);   // NOLINT(concurrency-mt-unsafe): the command has no other thread yet
  ::setenv("LOCKSTEP_LOG", "warn", 0);  // NOLINT(concurrency-mt-unsafe)
}

void set_log_level(const std::string& level) {
  if (std::find(log::kLevelNames.begin(), log::kLevelNames.end(), level) == log::kLevelNames.end()) {
    throw UsageError(fmt::format("--log-level is '{}', not one of error, warn, note, info, debug, trace", level));
  }
  ::setenv("LOCKSTEP_LOG", level.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): the command has no other thread yet
}

void prepare(CLI::App& app, const CommandText& text) {
  app.name(text.name);
  app.formatter(std::make_shared<HelpFormatter>(text));
  app.option_defaults()->always_capture_default();
  app.add_flag_callback("--quiet", be_quiet, kQuiet);
  app.add_option_function<std::string>("--log-level", set_log_level, kLogLevel)
      ->type_name("LEVEL")
      ->default_str("note");
  app.set_help_flag("-h,--help", kHelp);
}

bool parse(CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> reversed;  // CLI11 takes the arguments in reverse
  bool after_separator = false;
  for (const std::string& argument : arguments) {
    after_separator = after_separator || argument == "--";
    reversed.insert(reversed.begin(), after_separator ? argument : with_dashes(argument));
  }
  take_last(app);
  if (app.get_option_no_throw("--set") != nullptr) require_assignments(app, arguments);
  try {
    app.parse(reversed);
    take_wrong_variables(app);
    require_values(app);
    return true;
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return false;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extras = app.remaining();
    throw unknown(app, extras.empty() ? "" : extras.front());
  } catch (const CLI::RequiredError&) {
    // The missing option may have been misspelt.
    const std::string word = first_unknown(app, arguments);
    throw word.empty() ? missing(app) : unknown(app, word);
  } catch (const CLI::ConversionError& problem) {
    throw wrong_number(app, problem.what());
  } catch (const CLI::ArgumentMismatch& problem) {
    throw mismatch(app, problem.what());
  } catch (const CLI::ParseError& problem) {
    throw UsageError(fmt::format("{}: {}", app.get_name(), problem.what()), hint(app));
  }
}

CLI::Option* add_number(CLI::App& app, const std::string& name, double& number, const std::string& help) {
  return add_number_into(app, name, number, help)->default_str(fmt::format("{}", number));
}

CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<double>& number,
                        const std::string& help) {
  return add_number_into(app, name, number, help);
}

CLI::Validator whole(const WholeRange& range) {
  const auto problem = [range](const std::string& word) {
    return parse_whole(word, range) ? ""
                                    : fmt::format("'{}' is not a whole number from {} to {}", word,
                                                  text::thousands(range.least), text::thousands(range.most));
  };
  return CLI::Validator(problem, "");
}

CLI::Validator above_zero() {
  const auto problem = [](const std::string& word) {
    const auto number = text::parse_number(word);
    const bool is_good = number && std::isfinite(*number) && *number > 0;
    return is_good ? "" : fmt::format("'{}' is not a number above 0", word);
  };
  return CLI::Validator(problem, "");
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  const auto problem = [words](const std::string& word) {
    if (std::find(words.begin(), words.end(), word) != words.end()) return std::string();
    return fmt::format("'{}' is not one of {}{}", word, text::join(words), text::did_you_mean(word, words));
  };
  return CLI::Validator(problem, "");
}

std::vector<std::string> take_settings(const CLI::App& app, const std::vector<std::string>& arguments,
                                       const SettingOptions& options) {
  const std::vector<std::string> known = option_names(app);
  std::vector<std::string> words;
  bool after_separator = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    after_separator = after_separator || word == "--";
    const std::size_t equals = std::min(word.find('='), word.size());
    std::string name = word.starts_with("--") && !after_separator ? word.substr(2, equals - 2) : "";
    std::replace(name.begin(), name.end(), '-', '_');
    const bool ours = std::find(known.begin(), known.end(), with_dashes(word.substr(0, equals))) != known.end();
    if (name.empty() || ours || !options.is_setting(name)) {
      words.push_back(word);
      continue;
    }
    const bool is_switch = options.is_switch && options.is_switch(name);
    std::string value = "=true";
    if (equals < word.size()) {
      value = word.substr(equals);
    } else if (i + 1 < arguments.size() &&
               (is_switch ? is_bool(arguments[i + 1]) : !arguments[i + 1].starts_with("--"))) {
      value = "=" + arguments[++i];
    }
    words.insert(words.end(), {options.set_option, name + value});
  }
  return words;
}

int dispatch(const CommandText& text, const std::vector<Verb>& verbs, const std::vector<std::string>& arguments) {
  const std::string word = arguments.empty() ? "--help" : arguments.front();
  std::vector<std::pair<std::string, std::string>> rows;
  std::vector<std::string> names;
  for (const Verb& verb : verbs) {
    if (word == verb.name) return verb.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(verb.name);
    rows.emplace_back(verb.name, verb.summary);
  }
  if (word == "--help" || word == "-h") {
    print(verbs_text(text, rows, {{"-h, --help", kHelp}}));
    return 0;
  }
  throw UsageError(fmt::format("{}: unknown verb '{}'{}", text.name, word, text::did_you_mean(word, names)),
                   text.name + " --help");
}

}  // namespace lockstep::cli
