// SPDX-License-Identifier: Apache-2.0
#include "captioning/data/caption_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
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
#include "lockstep/data/sources/text_files.h"

namespace lockstep::captioning {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr JsonLimits kLimits{.bytes = 1U << 30U,
                             .values = 64'000'000};  // COCO's file with Karpathy's tokens has 15 million
constexpr const char* kTextHint = "each line must be FILE<TAB>CAPTION or FILE#NUMBER<TAB>CAPTION";

std::int64_t line_of_byte(std::string_view text, std::size_t byte) {
  return 1 + std::ranges::count(text.substr(0, std::min(byte, text.size())), '\n');
}

std::string_view without_mark(std::string_view text) {
  return text.substr(text.starts_with(kUtf8Mark) ? kUtf8Mark.size() : 0);
}

/// Calls work(line, number) for each line, without its newline.
template <class Work>
void for_each_line(std::string_view text, const Work& work) {
  text = without_mark(text);
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    work(line, number);
  }
}

/// The position of #NUMBER at the end of FILE#NUMBER, or npos if there is no number.
std::size_t number_mark(std::string_view key) {
  const std::size_t hash = key.rfind('#');
  if (hash == std::string_view::npos || hash + 1 == key.size()) return std::string_view::npos;
  return key.find_first_not_of("0123456789", hash + 1) == std::string_view::npos ? hash : std::string_view::npos;
}

/// Collects the captions of each image, ordered by each image's first caption.
class TextTable {
 public:
  explicit TextTable(const fs::path& file) : name_(file.string()) {}

  void add(std::string_view line, std::int64_t number) {
    if (line.empty()) return;
    const std::size_t tab = line.find('\t');
    const std::string_view key = line.substr(0, tab);
    const std::size_t mark = number_mark(key);
    const bool has_tab = tab != std::string_view::npos;
    if (!has_tab || key.empty() || mark == 0) {
      throw DataError(fmt::format("{}: line {} has no {}", name_, number, has_tab ? "file name before the tab" : "tab"),
                      kTextHint);
    }
    const std::string_view caption = line.substr(tab + 1);
    require_short(caption, fmt::format("{}: line {}", name_, number));
    if (words_of(caption).empty()) {
      throw DataError(fmt::format("{}: line {}: the caption of {} is empty", name_, number, shown(key)), kTextHint);
    }
    if (mark != std::string_view::npos && !numbered_.insert(std::string(key)).second) {
      throw DataError(fmt::format("{}: line {} has a second caption called {}", name_, number, shown(key)));
    }
    picture(std::string(key.substr(0, mark)), number).captions.emplace_back(caption);
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
      throw DataError(fmt::format("{}: line {}: {} and {} have the same id {}", name_, number, shown(image.file),
                                  shown(file), shown(image.id)),
                      "an id is a file name without folder and extension: rename one");
    }
    return image;
  }

  std::string name_;
  CaptionTable table_;
  std::unordered_map<std::string, std::size_t> places_;  // index of each image, by id
  std::unordered_set<std::string> numbered_;
};

/// Returns the error for invalid JSON in `file`, whose contents are `text`.
DataError no_json(const fs::path& file, std::string_view text, std::size_t byte, const char* hint) {
  return DataError(fmt::format("{}: line {} is not JSON (byte {})", file.string(), line_of_byte(text, byte), byte),
                   hint);
}

/// While reading, drops large parts of COCO's and Karpathy's files that are not needed here.
bool is_wanted(int /*depth*/, json::parse_event_t event, json& parsed) {
  if (event != json::parse_event_t::key) return true;
  static constexpr std::array<std::string_view, 7> kUnwanted{"tokens",   "sentids",    "licenses", "license",
                                                             "coco_url", "flickr_url", "info"};
  const auto& key = parsed.get_ref<const std::string&>();
  return std::ranges::find(kUnwanted, std::string_view(key)) == kUnwanted.end();
}

json parse_document(std::string_view text, const fs::path& file) {
  const char* const hint = "captions must be COCO's or Karpathy's JSON";
  try {
    return parse_json(text, kLimits, is_wanted);
  } catch (const JsonError& fault) {
    if (fault.why() == JsonError::kNoJson) throw no_json(file, text, fault.byte(), hint);
    throw DataError(fmt::format("{}: {}", file.string(), fault.message()), hint);
  }
}

/// Returns the text of a string or an integer (even if written as 1.0); otherwise "".
std::string as_id(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  const double number = value.is_number() ? value.get<double>() : 0.5;
  constexpr double kMostExact = 9'007'199'254'740'992.0;  // 2^53
  const bool whole = std::abs(number) <= kMostExact && number == std::trunc(number);
  return whole ? fmt::format("{}", static_cast<std::int64_t>(number)) : "";
}

/// The images of one JSON file, in file order. Captions that are stored separately are added to them.
class JsonTable {
 public:
  JsonTable(const fs::path& file, std::string split) : name_(file.string()), split_(std::move(split)) {}

  CaptionTable read(const json& document) {
    const auto images = document.is_object() ? document.find("images") : document.end();
    if (images == document.end() || !images->is_array()) {
      throw DataError(fmt::format("{} has no list \"images\"", name_), "captions must be COCO's or Karpathy's JSON");
    }
    for (const json& image : *images) add_image(image);
    require_split();
    if (const auto annotations = document.find("annotations"); annotations != document.end()) {
      if (!annotations->is_array()) throw DataError(fmt::format("{}: \"annotations\" is not a list", name_));
      for (const json& annotation : *annotations) add_annotation(annotation);
    }
    return with_captions();
  }

 private:
  [[nodiscard]] std::string id_of(const json& image) const {
    for (const char* key : {"cocoid", "id", "imgid"}) {
      const auto at = image.find(key);
      if (at == image.end() || at->is_null()) continue;
      if (std::string id = as_id(*at); !id.empty()) return id;
      throw no_id(*at, fmt::format("\"{}\" of image {} in the list", key, seen_));
    }
    throw DataError(fmt::format("{}: image {} in the list has no id", name_, seen_));
  }

  [[nodiscard]] DataError no_id(const json& value, const std::string& where) const {
    const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    return DataError(fmt::format("{}: {} is {}, must be a whole number or a string", name_, where, shown(text)));
  }

  /// Returns "" if the field is missing or null.
  [[nodiscard]] std::string text_field(const json& object, const char* key) const {
    const auto at = object.find(key);
    if (at == object.end() || at->is_null()) return "";
    if (at->is_string()) return at->get<std::string>();
    throw DataError(fmt::format("{}: \"{}\" of image {} in the list is {}, must be a string", name_, key, seen_,
                                shown(at->dump(-1, ' ', true, json::error_handler_t::replace))));
  }

  void add_image(const json& image) {
    ++seen_;
    if (!image.is_object()) throw DataError(fmt::format("{}: image {} in the list is not an object", name_, seen_));
    const std::string id = id_of(image);
    const auto [place, is_new] = places_.emplace(id, kLeftOut);
    if (!is_new) throw DataError(fmt::format("{}: two images have the id {}", name_, shown(id)));
    if (!is_of_split(text_field(image, "split"))) return;
    std::string file = text_field(image, "file_name");
    if (file.empty()) file = (fs::path(text_field(image, "filepath")) / text_field(image, "filename")).string();
    if (file.empty()) throw DataError(fmt::format("{}: image {} has no \"file_name\"", name_, shown(id)));
    place->second = table_.images.size();
    table_.images.push_back({.id = id, .file = std::move(file), .captions = {}});
    const auto sentences = image.find("sentences");
    if (sentences == image.end()) return;
    if (!sentences->is_array())
      throw DataError(fmt::format("{}: \"sentences\" of image {} is not a list", name_, shown(id)));
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
        fmt::format("{} has no images in the split '{}'{}", name_, split_, text::did_you_mean(split_, names)),
        names.empty() ? "its images have no splits: leave the split empty"
                      : fmt::format("its splits are {}", text::join(names)));
  }

  void add_annotation(const json& annotation) {
    ++annotations_;
    if (!annotation.is_object())
      throw DataError(fmt::format("{}: annotation {} is not an object", name_, annotations_));
    const auto image = annotation.find("image_id");
    if (image == annotation.end() || image->is_null()) {
      throw DataError(fmt::format("{}: annotation {} has no \"image_id\"", name_, annotations_));
    }
    const std::string id = as_id(*image);
    if (id.empty()) throw no_id(*image, fmt::format("\"image_id\" of annotation {}", annotations_));
    const auto place = places_.find(id);
    if (place == places_.end()) {
      throw DataError(
          fmt::format("{}: annotation {} is for image {}, which is not in the list", name_, annotations_, shown(id)));
    }
    if (place->second != kLeftOut) add_caption(place->second, annotation, "caption");
  }

  void add_caption(std::size_t place, const json& from, const char* key) {
    CaptionedImage& image = table_.images[place];
    const std::size_t number = image.captions.size() + 1;
    const auto at = from.is_object() ? from.find(key) : from.end();
    if (at == from.end() || !at->is_string()) {
      throw DataError(fmt::format("{}: caption {} of image {} has no \"{}\"", name_, number, shown(image.id), key),
                      "object and keypoint files have no captions: use captions_*.json");
    }
    image.captions.push_back(at->get<std::string>());
    require_short(image.captions.back(), fmt::format("{}: caption {} of image {}", name_, number, shown(image.id)));
    if (words_of(image.captions.back()).empty()) {
      throw DataError(fmt::format("{}: caption {} of image {} is empty", name_, number, shown(image.id)),
                      "correct the caption, or remove it");
    }
  }

  CaptionTable with_captions() {
    const std::size_t all = table_.images.size();
    std::erase_if(table_.images, [](const CaptionedImage& image) { return image.captions.empty(); });
    if (const std::size_t left = all - table_.images.size(); left > 0) {
      table_.notes.push_back(fmt::format("{}: {} of {} images have no caption and are skipped", name_, left, all));
    }
    return std::move(table_);
  }

  static constexpr std::size_t kLeftOut = static_cast<std::size_t>(-1);  // marks an entry that belongs to another split

  std::string name_;
  std::string split_;
  CaptionTable table_;
  std::unordered_map<std::string, std::size_t> places_;  // index in `images`, by id
  std::set<std::string> splits_;
  std::int64_t seen_ = 0;
  std::int64_t annotations_ = 0;
};

/// Reads the ids and paths of a JSON object in order, without building a tree: searching the earlier keys for each new
/// one would take quadratic time.
class IdReader final : public json::json_sax_t {
 public:
  IdReader(const fs::path& file, std::string_view text) : file_(file), text_(text) {}

  [[nodiscard]] IdList done() && { return std::move(list_); }

  bool key(string_t& id) override {
    list_.ids.push_back(std::move(id));
    return true;
  }
  bool string(string_t& path) override {
    list_.files.push_back(std::move(path));
    return true;
  }
  bool start_object(std::size_t) override { return list_.ids.empty() || no_path(); }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return no_path(); }
  bool end_array() override { return true; }
  bool null() override { return no_path(); }
  bool boolean(bool) override { return no_path(); }
  bool number_integer(number_integer_t) override { return no_path(); }
  bool number_unsigned(number_unsigned_t) override { return no_path(); }
  bool number_float(number_float_t, const string_t&) override { return no_path(); }
  bool binary(binary_t&) override { return no_path(); }
  bool parse_error(std::size_t byte, const std::string&, const json::exception&) override {
    throw no_json(file_, text_, byte, "ids must be one per line, or a JSON object from ids to paths");
  }

 private:
  [[nodiscard]] bool no_path() const {
    throw DataError(fmt::format("{}: the value of id {} is not a path", file_.string(), shown(list_.ids.back())));
  }

  const fs::path& file_;
  std::string_view text_;
  IdList list_;
};

IdList parse_id_object(std::string_view text, const fs::path& file) {
  IdReader reader(file, text);
  try {
    (void)read_json_events(text, kLimits, reader);
  } catch (const JsonError& fault) {
    throw DataError(fmt::format("{}: {}", file.string(), fault.message()));
  }
  return std::move(reader).done();
}

}  // namespace

void require_short(std::string_view caption, const std::string& where) {
  constexpr std::size_t kMostBytes = 64U << 10U;
  if (caption.size() <= kMostBytes) return;
  throw DataError(fmt::format("{} has a caption of {}; captions must be at most {}", where, text::bytes(caption.size()),
                              text::bytes(kMostBytes)),
                  "correct the caption, or remove it");
}

void require_utf8(std::string_view bytes, const fs::path& file) {
  if (is_utf8(bytes)) return;
  for_each_line(bytes, [&](std::string_view line, std::int64_t number) {
    if (is_utf8(line)) return;
    throw DataError(fmt::format("{}: line {} is not UTF-8", file.string(), number),
                    "convert the file, for example with iconv -f latin1 -t utf8");
  });
}

std::string file_text(const fs::path& file) {
  std::string bytes = FileSystem::system().read(file, kLimits.bytes);
  Result<std::string> text = utf8_text(bytes);
  return text ? std::move(text).value() : bytes;
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

CaptionTable parse_caption_text(std::string_view text, const fs::path& file) {
  require_utf8(text, file);
  TextTable table(file);
  for_each_line(text, [&](std::string_view line, std::int64_t number) { table.add(line, number); });
  return std::move(table).done();
}

CaptionTable read_caption_text(const fs::path& file) { return parse_caption_text(file_text(file), file); }

CaptionTable parse_caption_json(std::string_view text, const fs::path& file, const std::string& split) {
  require_utf8(text, file);
  return JsonTable(file, split).read(parse_document(text, file));
}

CaptionTable read_caption_json(const fs::path& file, const std::string& split) {
  return parse_caption_json(file_text(file), file, split);
}

IdList read_ids(const fs::path& file) { return parse_ids(file_text(file), file); }

IdList parse_ids(std::string_view bytes, const fs::path& file) {
  require_utf8(bytes, file);
  const std::string_view text = without_mark(bytes);
  IdList list;
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string_view::npos && text[start] == '{') {
    list = parse_id_object(text, file);
  } else {
    for_each_line(text, [&](std::string_view line, std::int64_t) {
      if (!line.empty()) list.ids.emplace_back(line);
    });
  }
  if (list.ids.empty()) throw DataError(fmt::format("{} holds no ids", file.string()), "write one id per line");
  std::unordered_set<std::string_view> seen;
  for (const std::string& id : list.ids) {
    if (!seen.insert(id).second) throw DataError(fmt::format("{} has the id {} twice", file.string(), shown(id)));
  }
  return list;
}

}  // namespace lockstep::captioning
