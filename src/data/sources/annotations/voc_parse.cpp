// SPDX-License-Identifier: Apache-2.0
#include "data/sources/annotations/voc_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <pugixml.hpp>

#include "data/codec.h"
#include "data/sources/files/files.h"
#include "data/sources/files/numbers.h"
#include "data/sources/files/utf8_check.h"
#include "lockstep/data/sources/text_files.h"

namespace lockstep::data {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && static_cast<unsigned char>(text.front()) <= ' ') text.remove_prefix(1);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return text;
}

/// A file as UTF-8; if it cannot be converted, its original bytes and the reason.
struct XmlText {
  std::string text;
  std::string fault;
};

/// Returns the encoding that the first line names: <?xml version="1.0" encoding="GB2312"?>. "" if it names none.
std::string declared_encoding(std::string_view xml) {
  if (xml.starts_with(std::string_view("<\0", 2))) return "UTF-16LE";
  if (xml.starts_with(std::string_view("\0<", 2))) return "UTF-16BE";
  xml = trimmed(xml);
  if (!xml.starts_with("<?xml")) return "";
  const std::string_view head = xml.substr(0, std::min(xml.find("?>"), xml.size()));
  const std::size_t key = head.find("encoding");
  const std::size_t open = key == head.npos ? head.npos : head.find_first_of("\"'", key);
  if (open == head.npos) return "";
  const std::string_view value = head.substr(open + 1);
  return std::string(value.substr(0, std::min(value.find(head[open]), value.size())));
}

/// Most tools write UTF-8, some the encoding of their system, which they may not declare. Only class names must be
/// valid text: a path from another machine may contain any bytes.
XmlText xml_text(std::string_view xml) {
  const std::string encoding = declared_encoding(xml);
  const std::string plain = lower_case(encoding);
  const bool says_utf8 = plain.empty() || plain == "utf-8" || plain == "utf8" || plain == "us-ascii";
  Result<std::string> text = says_utf8 ? utf8_text(xml) : converted_text(xml, encoding);
  if (text) return {std::move(text).value(), ""};
  return {std::string(xml), text.error()};
}

std::optional<double> number(const pugi::xml_node& node, const char* name) {
  const std::string_view text = trimmed(node.child_value(name));
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// VOC's corners are pixels, counted from 1, both inside the box; here corners are edges between pixels.
Box box_of(double x1, double y1, double x2, double y2, ImageSize size) {
  const double width = size.width > 0 ? static_cast<double>(size.width) : x2;
  const double height = size.height > 0 ? static_cast<double>(size.height) : y2;
  const auto cut = [](double value, double end) {
    return static_cast<float>(std::clamp(value, 0.0, std::max(end, 0.0)));
  };
  Box box{cut(x1 - 1, width), cut(y1 - 1, height), cut(x2, width), cut(y2, height)};
  if (x1 == x2) box.x1 = box.x2;
  if (y1 == y2) box.y1 = box.y2;
  return box;
}

bool is_true(std::string_view text) { return text == "1" || lower_case(std::string(text)) == "true"; }

Result<VocObject> read_object(const pugi::xml_node& node, ImageSize size) {
  VocObject object;
  object.name = std::string(trimmed(node.child_value("name")));
  if (object.name.empty()) return Failure{"has no name"};
  if (first_no_utf8(object.name)) return Failure{"has a name that is not UTF-8"};
  const pugi::xml_node corners = node.child("bndbox");
  const auto x1 = number(corners, "xmin");
  const auto y1 = number(corners, "ymin");
  const auto x2 = number(corners, "xmax");
  const auto y2 = number(corners, "ymax");
  if (!x1 || !y1 || !x2 || !y2) return Failure{"has no bndbox of four numbers"};
  const auto far = [](double value) { return !is_coordinate(value); };
  if (far(*x1) || far(*y1) || far(*x2) || far(*y2) || *x2 < *x1 || *y2 < *y1)
    return Failure{fmt::format("has a box from ({}, {}) to ({}, {})", *x1, *y1, *x2, *y2)};
  object.box = box_of(*x1, *y1, *x2, *y2, size);
  object.difficult = is_true(trimmed(node.child_value("difficult")));
  return object;
}

}  // namespace

Result<VocPicture> parse_voc(std::string_view xml) {
  pugi::xml_document document;
  const XmlText from = xml_text(xml);
  const pugi::xml_parse_result read =
      document.load_buffer(from.text.data(), from.text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!read) return Failure{fmt::format("byte {}: {}", read.offset, read.description())};
  const pugi::xml_node root = document.child("annotation");
  if (!root) return Failure{"no <annotation>"};
  VocPicture picture;
  const std::string_view file = trimmed(root.child_value("filename"));
  picture.file_name = std::string(file.substr(file.find_last_of("/\\") + 1));
  const pugi::xml_node size = root.child("size");
  for (const char* side : {"width", "height"}) {
    const std::string_view text = trimmed(size.child_value(side));
    if (!text.empty() && !number(size, side)) return Failure{fmt::format("a {} of '{}'", side, text)};
  }
  const double width = number(size, "width").value_or(0);
  const double height = number(size, "height").value_or(0);
  if (!(width >= 0 && height >= 0 && width <= kMaxSide && height <= kMaxSide)) {
    return Failure{fmt::format("an image of {} x {} pixels", width, height)};
  }
  picture.size = {static_cast<std::int64_t>(width), static_cast<std::int64_t>(height)};
  for (const pugi::xml_node& node : root.children("object")) {
    Result<VocObject> object = read_object(node, picture.size);
    if (!object) {
      const std::string why = from.fault.empty() ? "" : fmt::format(" ({})", from.fault);
      return Failure{
          fmt::format("byte {}: object {} {}{}", node.offset_debug(), picture.objects.size(), object.error(), why)};
    }
    picture.objects.push_back(std::move(object).value());
  }
  return picture;
}

}  // namespace lockstep::data
