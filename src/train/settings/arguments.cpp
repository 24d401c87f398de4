// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/launch/train_options.h"

namespace lockstep {
namespace {

// A switch of programs written for torch.distributed.launch. Here, the launcher is what makes a run distributed.
constexpr const char* kDistributed = "distributed";

/// Options with a group are excluded, because in a program, init() reads them.
const TrainOption* find_option(const std::string& name) {
  const TrainOption* option = find_train_option("--" + name);
  return option != nullptr && option->in_programs ? option : nullptr;
}

std::string spelled(std::string name, char from, char to) {
  std::replace(name.begin(), name.end(), from, to);
  return name;
}

std::string file_name(const char* path) { return std::filesystem::path(path).filename().string(); }

class Parser {
 public:
  Parser(int argc, const char* const* argv, TrainConfig& config, TrainerOptions& options)
      : program_(argc > 0 ? file_name(argv[0]) : "program"), words_(argv + std::min(argc, 1), argv + argc) {
    config.describe(fields_);
    options_ = &options;
  }

  ParsedArguments run(const ArgumentOptions& about) {
    for (at_ = 0; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      if (word == "--") {
        parsed_.rest.insert(parsed_.rest.end(), words_.begin() + static_cast<std::ptrdiff_t>(at_) + 1, words_.end());
        break;
      }
      if (word == "--help" || word == "-h") {
        print_help(about);
        parsed_.help = true;
        return parsed_;
      }
      take(word, about.keep_rest);
    }
    files_.merge(typed_);
    fields_.bind(files_);
    return parsed_;
  }

 private:
  void take(const std::string& word, bool keep_rest) {
    if (word.starts_with("--") && take_option(word)) return;
    if (word.ends_with(".yml") || word.ends_with(".yaml")) return files_.merge(ConfigTree::from_file(word));
    if (keep_rest) return parsed_.rest.push_back(word);
    throw unknown(word.substr(0, word.find('=')));
  }

  bool take_option(const std::string& word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = spelled(word.substr(2, equals - 2), '_', '-');
    const std::string key = spelled(name, '-', '_');
    const bool is_setting = std::any_of(fields_.fields().begin(), fields_.fields().end(),
                                        [&](const ConfigFields::Field& field) { return field.key == key; });
    if (name == kDistributed && !is_setting) return true;
    const TrainOption* option = find_option(name);
    if (option != nullptr && option->value.empty()) {
      apply(*option, "true");
      return true;
    }
    if (option == nullptr && !is_setting) return false;
    std::string value;
    if (equals < word.size()) {
      value = word.substr(equals + 1);
    } else if (at_ + 1 < words_.size() && !words_[at_ + 1].starts_with("--")) {
      value = words_[++at_];
    } else {
      throw UsageError(fmt::format("{}: --{} has no value", program_, name), program_ + " --help");
    }
    const bool has_next = at_ + 1 < words_.size() && !words_[at_ + 1].starts_with("--");
    if (name == "set" && value.find('=') == value.npos && has_next) {
      throw UsageError(fmt::format("{}: --set '{}' is not an assignment", program_, value),
                       fmt::format("write key and value as one argument: --set {}={}", value, words_[at_ + 1]));
    }
    // The Trainer's own option takes precedence over a setting with the same name; use --set for the latter.
    if (option != nullptr && option->group.empty()) {
      apply(*option, value);
    } else if (is_setting) {
      typed_.set(key + "=" + value, "--" + name);
    }
    return true;
  }

  void apply(const TrainOption& option, const std::string& value) {
    const std::string name(option.name);
    const std::string setting(option.setting);
    if (!setting.empty()) return typed_.set(option.value.empty() ? setting : setting + "=" + value, name);
    if (name == "--set") typed_.set(value, name);
    if (name == "--run-dir") options_->run_dir = value;
    if (name == "--resume") options_->resume = value;
    if (name == "--init-from") options_->init_from = value;
    if (name == "--init-from-partial") options_->init_from_partial = true;
    if (name == "--allow-other-bits") options_->allow_other_bits = true;
    if (name == "--rescue") options_->rescue = value;
    if (name == "--profile") options_->profile = whole_number(name, value, {1, 100'000});
    if (name != "--max-time") return;
    const auto seconds = text::parse_duration(value);
    if (!seconds) throw UsageError("--max-time: " + seconds.error());
    if (*seconds <= 0) throw UsageError(fmt::format("--max-time is {}: it must be positive", value), "--max-time 45m");
    options_->max_time = std::chrono::duration<double>(*seconds);
  }

  [[nodiscard]] UsageError unknown(const std::string& word) const {
    std::vector<std::string> known = {"--help"};
    for (const TrainOption& each : train_options()) {
      if (each.in_programs) known.emplace_back(each.name);
    }
    for (const auto& field : fields_.fields()) known.push_back("--" + field.key);
    return UsageError(fmt::format("{}: unknown argument '{}'{}", program_, word,
                                  text::did_you_mean(word.starts_with("--") ? "--" + word.substr(2) : word, known)),
                      program_ + " --help");
  }

  void print_help(const ArgumentOptions& about) const {
    if (env::get("RANK").value_or("0") != "0") return;
    std::string out = fmt::format("usage: {} [FILE.yml] [OPTIONS]\n", program_);
    if (!about.description.empty()) out += about.description + "\n";
    out += "\noptions:\n";
    for (const TrainOption& each : train_options()) {
      if (each.in_programs) out += fmt::format("  {:<24} {}\n", fmt::format("{} {}", each.name, each.value), each.help);
    }
    out += "\nsettings:\n";
    for (const auto& field : fields_.fields()) {
      const bool says_more = field.range.has_value() || !field.choices.empty();
      out += fmt::format("  {:<38} {}{}\n", fmt::format("{}={}", field.key, ConfigFields::value_text(field.target)),
                         field.help, says_more ? fmt::format(" ({})", field.allowed()) : "");
    }
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
  }

  std::string program_;
  std::vector<std::string> words_;
  TrainerOptions* options_ = nullptr;
  ConfigFields fields_;
  ConfigTree files_;
  ConfigTree typed_;
  ParsedArguments parsed_;
  std::size_t at_ = 0;
};

}  // namespace

ParsedArguments parse_arguments(int argc, const char* const* argv, TrainConfig& config, TrainerOptions& options,
                                const ArgumentOptions& about) {
  options.has_options = true;
  return Parser(argc, argv, config, options).run(about);
}

}  // namespace lockstep
