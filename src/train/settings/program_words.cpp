// SPDX-License-Identifier: Apache-2.0
#include "train/settings/program_words.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::train {
namespace {

struct Words {
  std::string_view option;
  std::string_view field;
};

constexpr std::array kWords = {Words{"--resume", "TrainerOptions::resume"},
                               Words{"--run-dir", "TrainerOptions::run_dir"},
                               Words{"--init-from-partial", "TrainerOptions::init_from_partial"},
                               Words{"--init-from", "TrainerOptions::init_from"},
                               Words{"--allow-other-bits", "TrainerOptions::allow_other_bits"},
                               Words{"--max-time", "TrainerOptions::max_time"},
                               Words{"--rescue", "TrainerOptions::rescue"}};

// Characters that end a value, which has no quotes.
constexpr const char* kEnds = " ,;:)\n";

bool is_value(const std::string& word) {
  return word == "auto" || word == "none" || word == "DIR" || word.find('/') != std::string::npos;
}

/// The option at `at` of `text`, and its value where it has one.
void replace_option(std::string& text, std::size_t at, const Words& words) {
  std::size_t end = at + words.option.size();
  std::string now(words.field);
  if (end < text.size() && text[end] == ' ') {
    const std::size_t stop = std::min(text.find_first_of(kEnds, end + 1), text.size());
    const std::string value = text.substr(end + 1, stop - end - 1);
    if (is_value(value)) {
      now += value == "DIR" ? " = DIR" : " = \"" + value + "\"";
      end = stop;
    }
  }
  text.replace(at, end - at, now);
}

void replace_set(std::string& text, std::size_t at, std::size_t length) {
  text.replace(at, length, "TrainConfig::");
  const std::size_t equals = text.find('=', at);
  if (equals != std::string::npos && equals < std::min(text.find_first_of(kEnds, at + 14), text.size())) {
    text.replace(equals, 1, " = ");
  }
}

}  // namespace

std::string program_words(const std::string& given) {
  constexpr std::string_view kSet = "--set ";
  std::string text = given;
  for (const Words& words : kWords) {
    for (auto at = text.find(words.option); at != std::string::npos; at = text.find(words.option, at + 1)) {
      replace_option(text, at, words);
    }
  }
  for (auto at = text.find(kSet); at != std::string::npos; at = text.find(kSet, at)) replace_set(text, at, kSet.size());
  return text;
}

void throw_in_program_words(const Error& error) {
  const std::string message = program_words(error.message());
  const std::string hint = program_words(error.hint());
  if (message != error.message() || hint != error.hint()) throw_error(error.type(), message, hint);
}

}  // namespace lockstep::train
