// SPDX-License-Identifier: Apache-2.0
// Names training options and settings in messages: as command-line options, or as fields that a program sets.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep {

/// Options that messages name, without their "--", and the fields that they set.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNamedOptions = {
    {{"resume", "TrainerOptions::resume"},
     {"run-dir", "TrainerOptions::run_dir"},
     {"init-from", "TrainerOptions::init_from"},
     {"init-from-partial", "TrainerOptions::init_from_partial"},
     {"allow-other-bits", "TrainerOptions::allow_other_bits"},
     {"max-time", "TrainerOptions::max_time"},
     {"rescue", "TrainerOptions::rescue"},
     {"metrics", "TrainConfig::metrics_address"}}};

/// One of these options; no other name compiles.
struct NamedOption {
  consteval NamedOption(const char* text) : name(text) {  // NOLINT(google-explicit-constructor)
    for (const auto& named : kNamedOptions) field = named.first == name ? named.second : field;
    if (field.empty()) throw "no such option";
  }
  std::string_view name;
  std::string_view field = {};
};

/// Returns "--resume auto", or within ProgramWords `TrainerOptions::resume = "auto"`. `value` may be empty. A value in
/// capital letters (DIR) is a placeholder and gets no quotes. Thread-safe.
[[nodiscard]] std::string option_words(NamedOption option, std::string_view value = {});

/// Returns "--set epochs=3", or within ProgramWords "TrainConfig::epochs = 3". Thread-safe.
[[nodiscard]] std::string setting_words(std::string_view assignment);

/// While an object created with `on` = true exists, messages throughout the process name fields instead of options.
class ProgramWords {
 public:
  explicit ProgramWords(bool on);
  ~ProgramWords();
  ProgramWords(const ProgramWords&) = delete;
  ProgramWords& operator=(const ProgramWords&) = delete;

 private:
  const bool on_;
};

}  // namespace lockstep

#pragma GCC visibility pop
