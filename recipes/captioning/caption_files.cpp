// SPDX-License-Identifier: Apache-2.0
#include "captioning/caption_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "captioning/tokens.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"

namespace lockstep::captioning {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kTextHint = "a line is FILE<TAB>CAPTION or FILE#NUMBER<TAB>CAPTION";

std::int64_t line_of_byte(std::string_view text, std::size_t byte) {
  return 1 + std::ranges::count(text.substr(0, std::min(byte, text.size())), '\n');
}

/// work(line, number) for each line, without its end.
template <class Work>
void for_each_line(std::string_view text, const Work& work) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    work(line, number);
  }
}

/// Puts captions to their pictures, in the order in which they come.
class TextTable {
 public:
  explicit TextTable(const fs::path& file) : name_(file.string()) {}

  void add(std::string_view line, std::int64_t number) {
    if (line.empty()) return;
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || tab == 0) {
      throw DataError(fmt::format("{}: line {} has no {}", name_, number, tab == 0 ? "file before its tab" : "tab"),
                      kTextHint);
    }
    const std::string_view key = line.substr(0, tab);
    const std::string_view caption = line.substr(tab + 1);
    if (words_of(caption).empty()) {
      throw DataError(fmt::format("{}: line {}: the caption of {} is empty", name_, number, key), kTextHint);
    }
    const std::size_t hash = key.rfind('#');
    if (hash != std::string_view::npos && !numbered_.insert(std::string(key)).second) {
      throw DataError(fmt::format("{}: line {} has the second caption called {}", name_, number, key));
    }
    picture(std::string(key.substr(0, hash)), number).captions.emplace_back(caption);
  }

  CaptionTable done() && {
    if (table_.images.empty()) throw DataError(fmt::format("{} holds no captions", name_), kTextHint);
    return std::move(table_);
  }

 private:
  CaptionedImage& picture(const std::string& file, std::int64_t number) {
    const auto [at, is_new] = places_.emplace(id_of_file(file), table_.images.size());
    if (is_new) table_.images.push_back({.id = at->first, .file = file, .captions = {}});
    CaptionedImage& image = table_.images[at->second];
    if (image.file != file) {
      throw DataError(
          fmt::format("{}: line {}: {} and {} have the same id {}", name_, number, image.file, file, image.id),
          "an id is a file's name without folder and extension: rename one");
    }
    return image;
  }

  std::string name_;
  CaptionTable table_;
  std::unordered_map<std::string, std::size_t> places_;  // by id
  std::unordered_set<std::string> numbered_;
};

/// The large parts of COCO's and Karpathy's files that nobody here needs are dropped while reading.
bool is_wanted(int /*depth*/, json::parse_event_t event, json& parsed) {
  if (event != json::parse_event_t::key) return true;
  static constexpr std::array<std::string_view, 7> kUnwanted{"tokens",   "sentids",    "licenses", "license",
                                                             "coco_url", "flickr_url", "info"};
  const auto& key = parsed.get_ref<const std::string&>();
  return std::ranges::find(kUnwanted, std::string_view(key)) == kUnwanted.end();
}

json parse_document(const fs::path& file) {
  const std::string text = FileSystem::system().read(file);
  require_utf8(text, file);
  try {
    return json::parse(text, is_wanted);
  } catch (const json::parse_error& fault) {
    throw DataError(
        fmt::format("{}: line {} is no JSON (byte {})", file.string(), line_of_byte(text, fault.byte), fault.byte),
        "captions come as COCO's JSON or as Karpathy's");
  }
}

std::string as_id(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  return "";
}

std::string text_field(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

/// The pictures of one JSON file, in its order, before captions that stand apart are put to them.
class JsonTable {
 public:
  JsonTable(const fs::path& file, std::string split) : name_(file.string()), split_(std::move(split)) {}

  CaptionTable read(const json& document) {
    const auto images = document.is_object() ? document.find("images") : document.end();
    if (images == document.end() || !images->is_array()) {
      throw DataError(fmt::format("{} has no list \"images\"", name_), "captions come as COCO's JSON or as Karpathy's");
    }
    for (const json& image : *images) add_image(image);
    require_split();
    if (const auto annotations = document.find("annotations"); annotations != document.end()) {
      if (!annotations->is_array()) throw DataError(fmt::format("{}: \"annotations\" is no list", name_));
      for (const json& annotation : *annotations) add_annotation(annotation);
    }
    return with_captions();
  }

 private:
  [[nodiscard]] std::string id_of(const json& image) const {
    for (const char* key : {"cocoid", "id", "imgid"}) {
      const auto at = image.find(key);
      if (at == image.end()) continue;
      if (std::string id = as_id(*at); !id.empty()) return id;
    }
    throw DataError(fmt::format("{}: image {} of the list has no id", name_, seen_));
  }

  void add_image(const json& image) {
    ++seen_;
    if (!image.is_object()) throw DataError(fmt::format("{}: image {} of the list is no object", name_, seen_));
    const std::string id = id_of(image);
    const auto [place, is_new] = places_.emplace(id, kLeftOut);
    if (!is_new) throw DataError(fmt::format("{}: two images have the id {}", name_, id));
    if (!is_of_split(text_field(image, "split"))) return;
    std::string file = text_field(image, "file_name");
    if (file.empty()) file = (fs::path(text_field(image, "filepath")) / text_field(image, "filename")).string();
    if (file.empty()) throw DataError(fmt::format("{}: image {} has no \"file_name\"", name_, id));
    place->second = table_.images.size();
    table_.images.push_back({.id = id, .file = std::move(file), .captions = {}});
    const auto sentences = image.find("sentences");
    if (sentences == image.end()) return;
    if (!sentences->is_array()) throw DataError(fmt::format("{}: \"sentences\" of image {} is no list", name_, id));
    for (const json& sentence : *sentences) add_caption(place->second, sentence, "raw");
  }

  bool is_of_split(const std::string& split) {
    if (!split.empty()) splits_.insert(split);
    return split_.empty() || split == split_ || (split_ == "train" && split == "restval");
  }

  void require_split() const {
    if (split_.empty() || splits_.contains(split_)) return;
    const std::vector<std::string> names(splits_.begin(), splits_.end());
    throw DataError(
        fmt::format("{} has no pictures of the split '{}'{}", name_, split_, text::did_you_mean(split_, names)),
        names.empty() ? "its pictures have no splits: leave the split empty"
                      : fmt::format("its splits are {}", text::join(names)));
  }

  void add_annotation(const json& annotation) {
    ++annotations_;
    if (!annotation.is_object()) throw DataError(fmt::format("{}: annotation {} is no object", name_, annotations_));
    const auto image = annotation.find("image_id");
    const std::string id = image == annotation.end() ? "" : as_id(*image);
    if (id.empty()) throw DataError(fmt::format("{}: annotation {} has no \"image_id\"", name_, annotations_));
    const auto place = places_.find(id);
    if (place == places_.end()) {
      throw DataError(
          fmt::format("{}: annotation {} is of image {}, which is not in the list", name_, annotations_, id));
    }
    if (place->second != kLeftOut) add_caption(place->second, annotation, "caption");
  }

  void add_caption(std::size_t place, const json& from, const char* key) {
    CaptionedImage& image = table_.images[place];
    const std::size_t number = image.captions.size() + 1;
    const auto at = from.is_object() ? from.find(key) : from.end();
    if (at == from.end() || !at->is_string()) {
      throw DataError(fmt::format("{}: caption {} of image {} has no \"{}\"", name_, number, image.id, key),
                      "files of objects or keypoints have no captions: give captions_*.json");
    }
    image.captions.push_back(at->get<std::string>());
    if (words_of(image.captions.back()).empty()) {
      throw DataError(fmt::format("{}: caption {} of image {} is empty", name_, number, image.id),
                      "correct the caption, or take it out");
    }
  }

  CaptionTable with_captions() {
    const std::size_t all = table_.images.size();
    std::erase_if(table_.images, [](const CaptionedImage& image) { return image.captions.empty(); });
    if (const std::size_t left = all - table_.images.size(); left > 0) {
      table_.notes.push_back(fmt::format("{}: {} of {} pictures have no caption and are left out", name_, left, all));
    }
    return std::move(table_);
  }

  static constexpr std::size_t kLeftOut = static_cast<std::size_t>(-1);  // of another split

  std::string name_;
  std::string split_;
  CaptionTable table_;
  std::unordered_map<std::string, std::size_t> places_;  // in `images`, by id
  std::set<std::string> splits_;
  std::int64_t seen_ = 0;
  std::int64_t annotations_ = 0;
};

IdList parse_id_object(const std::string& text, const fs::path& file) {
  nlohmann::ordered_json object;
  try {
    object = nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::ordered_json::parse_error& fault) {
    throw DataError(
        fmt::format("{}: line {} is no JSON (byte {})", file.string(), line_of_byte(text, fault.byte), fault.byte),
        "ids come one a line, or as a JSON object from ids to paths");
  }
  IdList list;
  for (const auto& [id, path] : object.items()) {
    if (!path.is_string()) throw DataError(fmt::format("{}: what stands at the id {} is no path", file.string(), id));
    list.ids.push_back(id);
    list.files.push_back(path.get<std::string>());
  }
  return list;
}

}  // namespace

void require_utf8(const std::string& bytes, const fs::path& file) {
  if (is_utf8(bytes)) return;
  for_each_line(bytes, [&](std::string_view line, std::int64_t number) {
    if (is_utf8(line)) return;
    throw DataError(fmt::format("{}: line {} is no UTF-8", file.string(), number),
                    "convert the file, for example with iconv -f latin1 -t utf8");
  });
}

std::string id_of_file(const std::string& file) {
  const fs::path name = fs::path(file).filename();
  std::string extension = name.extension().string();
  std::ranges::transform(extension, extension.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  for (const char* known : {".png", ".jpg", ".jpeg", ".npz"}) {
    if (extension == known) return name.stem().string();
  }
  return name.string();
}

CaptionTable read_caption_text(const fs::path& file) {
  const std::string text = FileSystem::system().read(file);
  require_utf8(text, file);
  TextTable table(file);
  for_each_line(text, [&](std::string_view line, std::int64_t number) { table.add(line, number); });
  return std::move(table).done();
}

CaptionTable read_caption_json(const fs::path& file, const std::string& split) {
  return JsonTable(file, split).read(parse_document(file));
}

IdList read_ids(const fs::path& file) {
  const std::string text = FileSystem::system().read(file);
  require_utf8(text, file);
  IdList list;
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string::npos && text[start] == '{') {
    list = parse_id_object(text, file);
  } else {
    for_each_line(text, [&](std::string_view line, std::int64_t) {
      if (!line.empty()) list.ids.emplace_back(line);
    });
  }
  if (list.ids.empty()) throw DataError(fmt::format("{} holds no ids", file.string()), "write one id a line");
  std::unordered_set<std::string_view> seen;
  for (const std::string& id : list.ids) {
    if (!seen.insert(id).second) throw DataError(fmt::format("{} has the id {} twice", file.string(), id));
  }
  return list;
}

}  // namespace lockstep::captioning
