// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/save_words.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/file_system.h"

namespace lockstep::checkpoint {

SaveWord word_of(const std::exception& error) {
  return {.failure = record_of(error), .again = dynamic_cast<const SyncError*>(&error) != nullptr};
}

std::string to_bytes(const SaveWord& word) {
  auto files = nlohmann::json::object();
  for (const auto& [name, digest] : word.files) files[name] = {digest.bytes, digest.xxh3_128};
  const nlohmann::json json = {{"folder", word.folder},
                               {"files", files},
                               {"failure", word.failure ? to_json(*word.failure) : ""},
                               {"again", word.again}};
  std::string bytes;
  nlohmann::json::to_cbor(json, bytes);  // not as text: a path may be no UTF-8
  return bytes;
}

SaveWord save_word_from_bytes(const std::string& bytes) {
  try {
    const auto json = nlohmann::json::from_cbor(bytes);
    SaveWord word{.folder = json.at("folder"), .again = json.at("again")};
    if (const std::string failure = json.at("failure"); !failure.empty()) word.failure = parse_failure(failure);
    for (const auto& [name, digest] : json.at("files").items()) word.files[name] = {digest.at(0), digest.at(1)};
    return word;
  } catch (const nlohmann::json::exception& error) {
    throw InternalError(fmt::format("a rank's word on a save is {}", error.what()));
  }
}

void throw_word(const SaveWord& word) {
  if (word.again) throw SyncError(word.failure->message, word.failure->hint);
  rethrow(*word.failure);
}

}  // namespace lockstep::checkpoint
