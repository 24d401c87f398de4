// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load/text_check.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/config.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
bool is_read_text(std::string_view file) {
  return file.ends_with(".yml") || file.ends_with(".yaml") || file.ends_with(".json");
}

std::string text_problem(std::string_view file, std::string_view text) {
  if (!is_read_text(file)) return "";
  if (text.size() > kMostTextBytes) {
    return fmt::format("it has {}; the limit for text files is {}", text::bytes(text.size()),
                       text::bytes(kMostTextBytes));
  }
  if (!file.ends_with(".json")) return yaml_problem(text);
  try {
    (void)parse_json(text, {.bytes = kMostTextBytes});
    return "";
  } catch (const JsonError& error) {
    return error.why() == JsonError::kNoJson ? "it is not JSON" : error.message();
  }
}

}  // namespace lockstep::checkpoint
