// SPDX-License-Identifier: Apache-2.0
#include "base/yaml_text.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <limits>
#include <locale>
#include <map>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/config.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr const char* kKeyIsText = "write the key as plain text";

[[noreturn]] void refuse_yaml(const YAML::Mark& mark, const std::string& why) {
  throw YAML::ParserException(mark, why);
}

/// The size of a value with everything below it and with its aliases expanded.
struct YamlExtent {
  std::uint64_t values = 1;
  std::uint64_t leaves = 1;
  std::uint64_t bytes = 0;  ///< bytes of its strings, plus the parent keys of each
  int height = 1;
};

/// A list or a map that is still open.
struct YamlLevel {
  bool is_map = false;
  YAML::anchor_t anchor = 0;
  YamlExtent extent = {};
  std::map<std::string, int> keys = {};         ///< the line of each key in the text
  std::optional<std::uint64_t> key_bytes = {};  ///< bytes of the key whose value comes next
};

/// Measures a text from the parser's events, without building a tree.
class YamlMeter : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    refuse_yaml(mark,
                "a second document begins, but only the first is read: remove the line '---' or the text after it");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { take_scalar(mark, anchor, "null"); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& value) override {
    take_scalar(mark, anchor, value);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, false);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, true);
  }
  void OnMapEnd() override { close(); }

 private:
  [[nodiscard]] bool key_is_next() const { return !open_.empty() && open_.back().is_map && !open_.back().key_bytes; }
  void count_value(const YAML::Mark& mark);
  void take_scalar(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& value);
  void take_key(const YAML::Mark& mark, const std::string& key);
  void open(const YAML::Mark& mark, YAML::anchor_t anchor, bool is_map);
  void close();
  void add(const YamlExtent& value);

  int documents_ = 0;
  std::uint64_t written_ = 0;
  std::vector<YamlLevel> open_;
  std::map<YAML::anchor_t, YamlExtent> anchors_;  ///< extents of whole values
  YAML::Mark last_;                               ///< the position of the last event
};

void YamlMeter::count_value(const YAML::Mark& mark) {
  last_ = mark;
  if (++written_ > base::kYamlMostValues) {
    refuse_yaml(mark, fmt::format("settings with more than {} values are not supported", base::kYamlMostValues));
  }
}

void YamlMeter::take_key(const YAML::Mark& mark, const std::string& key) {
  YamlLevel& map = open_.back();
  const auto [first, is_new] = map.keys.emplace(key, mark.line + 1);
  if (!is_new) {
    refuse_yaml(mark, fmt::format("the key '{}' occurs twice in one map, first in line {}: remove one of them", key,
                                  first->second));
  }
  map.key_bytes = key.size() + 1;
}

void YamlMeter::take_scalar(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& value) {
  count_value(mark);
  const YamlExtent extent{.bytes = value.size()};
  if (anchor != 0) anchors_[anchor] = extent;
  if (key_is_next()) return take_key(mark, value);
  add(extent);
}

void YamlMeter::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  count_value(mark);
  if (key_is_next()) refuse_yaml(mark, fmt::format("a key that is an alias: {}", kKeyIsText));
  const auto meant = anchors_.find(anchor);
  if (meant == anchors_.end()) {  // the parser knows the anchor, so its value is still open
    refuse_yaml(mark, "the alias is inside its own anchor, so the value would never end: write it out");
  }
  add(meant->second);
}

void YamlMeter::open(const YAML::Mark& mark, YAML::anchor_t anchor, bool is_map) {
  count_value(mark);
  if (key_is_next()) refuse_yaml(mark, fmt::format("a key that is a list or a map: {}", kKeyIsText));
  if (open_.size() >= static_cast<std::size_t>(base::kYamlMostDepth)) {
    refuse_yaml(mark, fmt::format("values nested more than {} deep", base::kYamlMostDepth));
  }
  open_.push_back({.is_map = is_map, .anchor = anchor});
}

void YamlMeter::close() {
  const YamlLevel level = std::move(open_.back());
  open_.pop_back();
  if (level.anchor != 0) anchors_[level.anchor] = level.extent;
  add(level.extent);
}

/// Adds a value to the open level. The limits of the whole text bound the sum.
void YamlMeter::add(const YamlExtent& value) {
  if (open_.empty()) return;
  YamlLevel& level = open_.back();
  YamlExtent& sum = level.extent;
  sum.values += value.values;
  sum.leaves += value.leaves;
  sum.bytes += value.bytes + level.key_bytes.value_or(1) * value.leaves;
  sum.height = std::max(sum.height, value.height + 1);
  level.key_bytes.reset();
  if (sum.values > base::kYamlMostValues) {
    refuse_yaml(last_, fmt::format("more than {} values once all aliases are expanded", base::kYamlMostValues));
  }
  if (sum.bytes > base::kYamlMostExpandedBytes) {
    refuse_yaml(last_, fmt::format("more than {} bytes once all aliases are expanded and each value carries its keys",
                                   base::kYamlMostExpandedBytes));
  }
  if (static_cast<int>(open_.size()) + sum.height - 1 > base::kYamlMostDepth + 1) {
    refuse_yaml(last_,
                fmt::format("values nested more than {} deep once all aliases are expanded", base::kYamlMostDepth));
  }
}

void measure_yaml(const std::string& text) {
  if (text.size() > base::kYamlMostBytes) {
    refuse_yaml({}, fmt::format("the settings take {}; the limit is {}", text::bytes(text.size()),
                                text::bytes(base::kYamlMostBytes)));
  }
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  YamlMeter meter;
  while (parser.HandleNextDocument(meter)) {
  }
}

}  // namespace

YAML::Node base::load_yaml(std::string_view text) {
  const std::string whole(text);
  measure_yaml(whole);
  return YAML::Load(whole);
}

template <class T>
T base::yaml_number(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  std::istringstream stream(text);
  stream.imbue(std::locale::classic());
  stream.unsetf(std::ios::dec);  // 0x10 is 16
  T number{};
  if (stream >> std::noskipws >> number && (stream >> std::ws).eof()) return number;
  if constexpr (std::is_floating_point_v<T>) {
    if (YAML::conversion::IsInfinity(text)) return std::numeric_limits<T>::infinity();
    if (YAML::conversion::IsNegativeInfinity(text)) return -std::numeric_limits<T>::infinity();
    if (YAML::conversion::IsNaN(text)) return std::numeric_limits<T>::quiet_NaN();
  }
  throw YAML::TypedBadConversion<T>(node.Mark());
}

template std::int64_t base::yaml_number(const YAML::Node&);
template double base::yaml_number(const YAML::Node&);

std::string yaml_problem(std::string_view yaml) {
  try {
    measure_yaml(std::string(yaml));
    return "";
  } catch (const YAML::Exception& problem) {
    return fmt::format("line {}, column {}: {}", problem.mark.line + 1, problem.mark.column + 1, problem.msg);
  }
}

}  // namespace lockstep
