// SPDX-License-Identifier: Apache-2.0
// Lists of images as JSON: an array, or one object per line. Only one entry at a time is in memory as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "data/sources/annotations/list_parse.h"
#include "data/sources/files/json_numbers.h"
#include "data/sources/files/numbers.h"

#include "lockstep/base/json.h"
#include "lockstep/data/sources/text_files.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

/// A label as a string; names become numbers once all are known.
struct LabelText {
  std::int64_t entry = 0;
  enum class Use { kPicture, kPictures, kObject } use = Use::kPicture;
  std::size_t place = 0;  // index in the entry's list
  std::string name;
};

class ListBuilder {
 public:
  // Adds an entry. Returns what is wrong with it; "" if it is valid.
  std::string add(const json& object) {
    if (!object.is_object()) return "an entry is not an object";
    ListEntry entry;
    const auto path = object.find("path");
    if (path == object.end() || !path->is_string() || path->get_ref<const std::string&>().empty()) {
      return "an entry needs a string \"path\"";
    }
    entry.path = path->get<std::string>();
    std::string why = read_captions(object, entry);
    if (why.empty()) why = read_values(object, entry);
    if (why.empty()) why = read_boxes(object, entry);
    if (why.empty()) why = read_labels(object, entry);
    if (why.empty()) list_.entries.push_back(std::move(entry));
    return why;
  }

  Result<ParsedList> finish() {
    if (!names_.empty() && numbers_) return Failure{"some labels are numbers and others names"};
    std::map<std::string, std::int64_t> classes;
    for (const LabelText& text : names_) classes[text.name] = 0;
    for (auto& [name, label] : classes) {
      label = std::ssize(list_.classes);
      list_.classes.push_back(name);
    }
    for (const LabelText& text : names_) place(text, classes[text.name]);
    if (has_labels_ && !list_.classes.empty()) list_.label_count = std::ssize(list_.classes);
    return std::move(list_);
  }

 private:
  static std::string read_captions(const json& object, ListEntry& entry) {
    if (const auto one = object.find("caption"); one != object.end()) {
      if (!one->is_string()) return "\"caption\" is not a string";
      entry.captions.push_back(one->get<std::string>());
    }
    if (const auto all = object.find("captions"); all != object.end()) {
      if (!all->is_array()) return "\"captions\" is not a list";
      for (const json& caption : *all) {
        if (!caption.is_string()) return "\"captions\" contains a value that is not a string";
        entry.captions.push_back(caption.get<std::string>());
      }
    }
    return "";
  }

  static std::string read_values(const json& object, ListEntry& entry) {
    const auto values = object.find("values");
    if (values == object.end()) return "";
    if (!values->is_array()) return "\"values\" is not a list";
    for (const json& value : *values) {
      if (!value.is_number()) return "\"values\" contains a value that is not a number";
      if (!fits_float(value.get<double>())) return fmt::format("a value of {}", value.dump());
      entry.values.push_back(value.get<float>());
    }
    return "";
  }

  static std::string read_boxes(const json& object, ListEntry& entry) {
    const auto boxes = object.find("boxes");
    if (boxes == object.end()) return "";
    if (!boxes->is_array()) return "\"boxes\" is not a list";
    for (const json& box : *boxes) {
      const bool four = box.is_array() && box.size() == 4 &&
                        std::ranges::all_of(box, [](const json& side) { return side.is_number(); });
      if (!four) return "a box is not a list of 4 numbers";
      if (!std::ranges::all_of(box, [](const json& side) { return is_coordinate(side.get<double>()); })) {
        return fmt::format("a box of {}", box.dump());
      }
      Object marked;
      marked.box = {box[0].get<float>(), box[1].get<float>(), box[2].get<float>(), box[3].get<float>()};
      if (!(marked.box.x2 >= marked.box.x1 && marked.box.y2 >= marked.box.y1)) {
        return fmt::format("box {} ends before it begins", box.dump());
      }
      marked.area = marked.box.area();
      entry.objects.push_back(std::move(marked));
    }
    return "";
  }

  std::string read_labels(const json& object, ListEntry& entry) {
    if (const auto one = object.find("label"); one != object.end()) {
      entry.label = 0;
      if (const std::string why = read_label(*one, LabelText::Use::kPicture, 0, *entry.label); !why.empty()) return why;
    }
    const auto all = object.find("labels");
    if (all == object.end()) return "";
    if (!all->is_array()) return "\"labels\" is not a list";
    const bool of_boxes = object.contains("boxes");
    if (of_boxes && all->size() != entry.objects.size()) {
      return fmt::format("{} labels for {} boxes", all->size(), entry.objects.size());
    }
    for (std::size_t i = 0; i < all->size(); ++i) {
      std::int64_t label = 0;
      const auto use = of_boxes ? LabelText::Use::kObject : LabelText::Use::kPictures;
      if (const std::string why = read_label((*all)[i], use, i, label); !why.empty()) return why;
      if (of_boxes) {
        entry.objects[i].label = label;
        continue;
      }
      if (label >= kMaxListLabel)
        return fmt::format("label {} is too large: with several labels per entry, at most {}", label,
                           kMaxListLabel - 1);
      has_labels_ = true;
      list_.label_count = std::max(list_.label_count, label + 1);
      entry.labels.push_back(label);
    }
    return "";
  }

  std::string read_label(const json& value, LabelText::Use use, std::size_t place, std::int64_t& label) {
    if (value.is_string()) {
      names_.push_back({std::ssize(list_.entries), use, place, value.get<std::string>()});
      return "";
    }
    const auto number = whole_number(value);
    if (!number || *number < 0) {
      return fmt::format("a label is neither a string nor 0, 1, ...: {}", shown_json(value));
    }
    numbers_ = true;
    label = *number;
    return "";
  }

  void place(const LabelText& text, std::int64_t label) {
    ListEntry& entry = list_.entries[static_cast<std::size_t>(text.entry)];
    if (text.use == LabelText::Use::kPicture) entry.label = label;
    if (text.use == LabelText::Use::kPictures) entry.labels[text.place] = label;
    if (text.use == LabelText::Use::kObject) entry.objects[text.place].label = label;
  }

  ParsedList list_;
  std::vector<LabelText> names_;
  bool numbers_ = false;
  bool has_labels_ = false;
};

std::int64_t line_of(std::string_view text, std::size_t byte) {
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size())), '\n');
}

Result<ParsedList> parse_array(std::string_view text) {
  ListBuilder builder;
  std::string why;
  std::int64_t entry = 0;
  const auto each = [&](int depth, json::parse_event_t event, json& value) {
    const bool whole = event == json::parse_event_t::object_end || event == json::parse_event_t::value ||
                       event == json::parse_event_t::array_end;
    if (depth != 1 || !whole) return true;
    if (why.empty()) {
      why = builder.add(value);
      if (!why.empty()) why = fmt::format("entry {}: {}", entry, why);
    }
    ++entry;
    return false;  // drops the element, which has been read
  };
  try {
    const json rest = parse_json(text, {.bytes = kMostTextBytes, .part_depth = 1}, each);  // an empty array
  } catch (const JsonError& error) {
    if (error.byte() == 0) return Failure{error.why()};
    return Failure{fmt::format("line {}: {} (byte {}){}", line_of(text, error.byte()), error.why(), error.byte(),
                               json_hint(text, error.byte()))};
  } catch (const json::exception& error) {
    return Failure{error.what()};
  }
  if (!why.empty()) return Failure{why};
  return builder.finish();
}

/// Adds the entry of one line. Returns what is wrong with it; "" if it is valid.
std::string add_line(ListBuilder& builder, std::string_view line) {
  try {
    return builder.add(parse_json(line));
  } catch (const JsonError& error) {
    if (error.byte() == 0) return error.why();
    if (error.why() != JsonError::kNoJson) return fmt::format("{} (byte {})", error.why(), error.byte());
    return "not a JSON object" + json_hint(line, error.byte());
  }
}

Result<ParsedList> parse_lines(std::string_view text) {
  ListBuilder builder;
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (const std::string why = add_line(builder, line); !why.empty())
      return Failure{fmt::format("line {}: {}", number, why)};
  }
  return builder.finish();
}

}  // namespace

Result<ParsedList> parse_json_list(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '[' ? parse_array(text) : parse_lines(text);
}

}  // namespace lockstep::data
