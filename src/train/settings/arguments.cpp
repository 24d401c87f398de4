// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"

namespace lockstep {
namespace {

struct OptionHelp {
  std::string_view name;
  std::string_view value;
  std::string_view help;
};

constexpr std::array kOptions = {
    OptionHelp{"set", "KEY=VALUE", "a setting; may come again. --KEY VALUE is the same"},
    OptionHelp{"run-dir", "DIR", "the run's folder"},
    OptionHelp{"resume", "WHERE",
               "none; auto: the run folder's newest checkpoint, if any; or a checkpoint's path or URL"},
    OptionHelp{"init-from", "FILE", "a checkpoint, .pth or .safetensors file whose weights a fresh run starts from"},
    OptionHelp{"rescue", "DIR", "where the run is saved when its own folder is lost or cannot be written to"},
    OptionHelp{"max-time", "TIME", "save and leave after 90s, 45m, 1h30m, 2d, HH:MM:SS"},
    OptionHelp{"profile", "N", "profile N steps after the first three; traces go to RUN_DIR/trace"},
    OptionHelp{"metrics", "[HOST:]PORT", "serve the run's figures to Prometheus at http://127.0.0.1:PORT/metrics"}};

// What init() reads.
constexpr std::array kOfInit = {
    OptionHelp{"backend", "NAME", "shm, tcp, nccl or auto"},
    OptionHelp{"wire", "NAME", "tls, plain or ucx: how the bytes between hosts travel"},
    OptionHelp{"device", "NAME", "cpu, cuda or cuda:N"},
    OptionHelp{"dist-url", "URL", "where the ranks meet: tcp:// or file://"},
    OptionHelp{"rank", "R", "with --dist-url"},
    OptionHelp{"world-size", "W", "with --dist-url"},
    OptionHelp{"local-rank", "R", "as torch.distributed.launch passes it; must be what the launcher says"}};

// A switch of programs of torch.distributed.launch: a launcher makes the run distributed here.
constexpr const char* kDistributed = "distributed";
constexpr OptionHelp kPartial{"init-from-partial", "", "let --init-from fit less than half of the model's elements"};
constexpr OptionHelp kOtherBits{"allow-other-bits", "", "let a run that resumes have another number of replicas"};
constexpr OptionHelp kNoTensorBoard{"no-tensorboard", "", "write no files for TensorBoard"};

std::string spelled(std::string name, char from, char to) {
  std::replace(name.begin(), name.end(), from, to);
  return name;
}

template <class Options>
bool has(const Options& options, const std::string& name) {
  return std::any_of(options.begin(), options.end(), [&](const OptionHelp& each) { return each.name == name; });
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
    if (name == kNoTensorBoard.name) {
      typed_.set("tensorboard=none", "--no-tensorboard");
      return true;
    }
    if (name == kPartial.name) return options_->init_from_partial = true;
    if (name == kOtherBits.name) return options_->allow_other_bits = true;
    if (!has(kOptions, name) && !has(kOfInit, name) && !is_setting) return false;
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
      throw UsageError(fmt::format("{}: --set '{}' is no assignment", program_, value),
                       fmt::format("key and value are one word: --set {}={}", value, words_[at_ + 1]));
    }
    // The Trainer's own option wins over a setting of the same name, which --set reaches.
    if (has(kOptions, name)) {
      apply(name, value);
    } else if (is_setting) {
      typed_.set(key + "=" + value, "--" + name);
    }
    return true;
  }

  void apply(const std::string& name, const std::string& value) {
    if (name == "set") typed_.set(value, "--set");
    if (name == "run-dir") options_->run_dir = value;
    if (name == "resume") options_->resume = value;
    if (name == "init-from") options_->init_from = value;
    if (name == "rescue") options_->rescue = value;
    if (name == "metrics") typed_.set("metrics_address=" + value, "--metrics");
    if (name == "profile") options_->profile = whole_number("--profile", value, {1, 100'000});
    if (name != "max-time") return;
    const auto seconds = text::parse_duration(value);
    if (!seconds) throw UsageError("--max-time: " + seconds.error());
    if (*seconds <= 0) throw UsageError(fmt::format("--max-time is {}: no time at all", value), "--max-time 45m");
    options_->max_time = std::chrono::duration<double>(*seconds);
  }

  [[nodiscard]] UsageError unknown(const std::string& word) const {
    std::vector<std::string> known = {"--help", "--no-tensorboard", "--init-from-partial", "--allow-other-bits"};
    for (const auto& each : kOptions) known.push_back(fmt::format("--{}", each.name));
    for (const auto& each : kOfInit) known.push_back(fmt::format("--{}", each.name));
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
    const auto add = [&out](const OptionHelp& each) {
      out += fmt::format("  {:<24} {}\n", fmt::format("--{} {}", each.name, each.value), each.help);
    };
    std::for_each(kOptions.begin(), kOptions.end(), add);
    add(kPartial);
    add(kOtherBits);
    add(kNoTensorBoard);
    std::for_each(kOfInit.begin(), kOfInit.end(), add);
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
