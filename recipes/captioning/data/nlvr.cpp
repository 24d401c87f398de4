// SPDX-License-Identifier: Apache-2.0
#include "captioning/data/caption_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "captioning/metrics/tokens.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"

namespace lockstep::captioning {
namespace {

using nlohmann::json;

constexpr std::int64_t kFolds = 5;  // every fifth sentence is used for testing

/// One line of the file.
struct Judgement {
  std::string identifier;
  std::string directory;
  std::string sentence;
  std::int64_t sentence_number = 0;
  bool is_true = false;
};

std::string nlvr_field(const json& line, const char* key, bool needed, const std::string& where) {
  const auto at = line.find(key);
  if (at != line.end() && at->is_string()) return at->get<std::string>();
  if (at == line.end() && !needed) return "";
  throw DataError(fmt::format("{} has no string \"{}\"", where, key), "NLVR's files have one object per line");
}

Judgement parse_judgement(std::string_view text, const std::string& where) {
  const json line = json_or_null(text);
  if (!line.is_object())
    throw DataError(fmt::format("{} is not a JSON object", where), "NLVR's files have one per line");
  Judgement judgement{.identifier = nlvr_field(line, "identifier", true, where),
                      .directory = nlvr_field(line, "directory", false, where),
                      .sentence = nlvr_field(line, "sentence", true, where)};
  const std::string label = nlvr_field(line, "label", true, where);
  if (label != "true" && label != "false") {
    throw DataError(fmt::format("{} has the label '{}', must be true or false", where, shown(label)));
  }
  judgement.is_true = label == "true";
  const std::string& id = judgement.identifier;
  const auto [end, fault] = std::from_chars(id.data(), id.data() + id.size(), judgement.sentence_number);
  if (fault != std::errc() || end == id.data() + id.size() || *end != '-') {
    throw DataError(fmt::format("{} has the identifier '{}', must be NUMBER-NUMBER", where, shown(id)));
  }
  require_short(judgement.sentence, where);
  if (judgement.is_true && words_of(judgement.sentence).empty()) {
    throw DataError(fmt::format("{} has an empty sentence about {}", where, shown(id)));
  }
  return judgement;
}

std::vector<Judgement> parse_judgements(std::string_view text, const std::string& name) {
  std::vector<Judgement> all;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    all.push_back(parse_judgement(line, fmt::format("{}: line {}", name, number)));
  }
  return all;
}

/// The numbers of the test sentences.
std::unordered_set<std::int64_t> test_sentences(const std::vector<Judgement>& judgements) {
  std::set<std::int64_t> numbers;
  for (const Judgement& judgement : judgements) numbers.insert(judgement.sentence_number);
  std::unordered_set<std::int64_t> chosen;
  std::int64_t place = 0;
  for (const std::int64_t number : numbers) {
    if (++place % kFolds == 0) chosen.insert(number);
  }
  return chosen;
}

}  // namespace

bool is_nlvr(const std::filesystem::path& file) {
  constexpr std::uint64_t kEnough = 4096;
  const auto in = FileSystem::system().open(file);
  std::string start(static_cast<std::size_t>(std::min(kEnough, in->size())), '\0');
  in->read(0, start.data(), start.size());
  start = text::first_line(start);
  return start.find("\"sentence\"") != std::string::npos && start.find("\"identifier\"") != std::string::npos;
}

CaptionTable read_nlvr(const std::filesystem::path& file, const std::string& split) {
  if (!split.empty() && split != "train" && split != "test") {
    throw UsageError(fmt::format("NLVR has no split '{}'{}", split, text::did_you_mean(split, {"train", "test"})),
                     "train, test, or nothing for all images");
  }
  const std::string text = file_text(file);
  require_utf8(text, file);
  std::vector<Judgement> judgements = parse_judgements(text, file.string());
  const std::unordered_set<std::int64_t> test = test_sentences(judgements);
  CaptionTable table;
  std::unordered_map<std::string, std::size_t> places;  // in `images`, by identifier
  std::unordered_set<std::string> false_only;
  for (Judgement& judgement : judgements) {
    if (!split.empty() && test.contains(judgement.sentence_number) != (split == "test")) continue;
    if (!judgement.is_true) {
      if (!places.contains(judgement.identifier)) false_only.insert(judgement.identifier);
      continue;
    }
    false_only.erase(judgement.identifier);
    const auto [place, is_new] = places.emplace(judgement.identifier, table.images.size());
    if (is_new) {
      const std::string name = fmt::format("{}-{}-0.png", file.stem().string(), judgement.identifier);
      table.images.push_back({.id = judgement.identifier,
                              .file = (std::filesystem::path(judgement.directory) / name).string(),
                              .captions = {}});
    }
    table.images[place->second].captions.push_back(std::move(judgement.sentence));
  }
  if (!false_only.empty()) {
    table.notes.push_back(fmt::format("{}: {} of {} images have no true sentence and are skipped", file.string(),
                                      false_only.size(), false_only.size() + table.images.size()));
  }
  return table;
}

}  // namespace lockstep::captioning
