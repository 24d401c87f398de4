// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/save_words.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/file_system.h"

namespace lockstep::checkpoint {

SaveWord word_of(const Error& error) {
  return {.error_type = error.type(),
          .message = error.message(),
          .hint = error.hint(),
          .again = dynamic_cast<const SyncError*>(&error) != nullptr};
}

SaveWord word_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return word_of(*ours);
  return {.error_type = "InternalError", .message = error.what()};
}

std::string to_bytes(const SaveWord& word) {
  auto files = nlohmann::json::object();
  for (const auto& [name, digest] : word.files) files[name] = {digest.bytes, digest.xxh3_128};
  const nlohmann::json json = {{"folder", word.folder},   {"files", files},    {"error", word.error_type},
                               {"message", word.message}, {"hint", word.hint}, {"again", word.again}};
  std::string bytes;
  nlohmann::json::to_cbor(json, bytes);  // not as text: a path may be no UTF-8
  return bytes;
}

SaveWord save_word_from_bytes(const std::string& bytes) {
  try {
    const auto json = nlohmann::json::from_cbor(bytes);
    SaveWord word{.folder = json.at("folder"),
                  .error_type = json.at("error"),
                  .message = json.at("message"),
                  .hint = json.at("hint"),
                  .again = json.at("again")};
    for (const auto& [name, digest] : json.at("files").items()) word.files[name] = {digest.at(0), digest.at(1)};
    return word;
  } catch (const nlohmann::json::exception& error) {
    throw InternalError(fmt::format("a rank's word on a save is {}", error.what()));
  }
}

void throw_word(const SaveWord& word) {
  if (word.again) throw SyncError(word.message, word.hint);
  throw_error(word.error_type, word.message, word.hint);
}

}  // namespace lockstep::checkpoint
