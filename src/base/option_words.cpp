// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/option_words.h"

#include <fmt/format.h>

#include <atomic>

namespace lockstep {
namespace {

std::atomic<int> programs{0};

bool is_filled_in(std::string_view value) {
  return value.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string_view::npos;
}

}  // namespace

std::string option_words(NamedOption option, std::string_view value) {
  if (programs == 0) return fmt::format("--{}{}{}", option.name, value.empty() ? "" : " ", value);
  if (value.empty()) return std::string(option.field);
  const char* quote = is_filled_in(value) ? "" : "\"";
  return fmt::format("{} = {}{}{}", option.field, quote, value, quote);
}

std::string setting_words(std::string_view assignment) {
  if (programs == 0) return fmt::format("--set {}", assignment);
  const std::size_t equals = assignment.find('=');
  return fmt::format("TrainConfig::{} = {}", assignment.substr(0, equals), assignment.substr(equals + 1));
}

ProgramWords::ProgramWords(bool on) : on_(on) { programs += on_ ? 1 : 0; }
ProgramWords::~ProgramWords() { programs -= on_ ? 1 : 0; }

}  // namespace lockstep
