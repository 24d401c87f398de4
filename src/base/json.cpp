// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::string placed(const std::string& why, std::string_view text, std::size_t byte) {
  if (byte == 0) return why;
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
  return fmt::format("line {} (byte {}): {}", 1 + std::count(text.begin(), end, '\n'), byte, why);
}

std::string too_deep(const JsonLimits& limits) {
  return fmt::format("lists and objects are nested more than {} deep", limits.depth);
}

std::string too_many(const JsonLimits& limits) {
  return fmt::format("more than {} values", text::thousands(static_cast<std::int64_t>(limits.values)));
}

/// Counts the structure outside of strings, in one pass and without allocating. If the bytes are not JSON it may count
/// wrongly, but only after the point where the parser stops.
class Counter {
 public:
  Counter(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  void require_bounded() {
    for (at_ = 0; at_ < text_.size(); ++at_) take(text_[at_]);
  }

 private:
  void take(char c) {
    switch (c) {
      case '"':
        skip_text();
        break;
      case '[':
      case '{':
        add_value();
        if (++depth_ > limits_.depth) fail(too_deep(limits_));
        break;
      case ']':
      case '}':
        --depth_;
        break;
      case ',':
        if (depth_ <= limits_.part_depth) values_ = 0;
        add_value();
        break;
      case ':':
        add_value();
        break;
      default:
        break;
    }
  }

  void skip_text() {
    while (++at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') ++at_;
    }
  }

  void add_value() {
    if (++values_ > limits_.values) fail(too_many(limits_));
  }

  [[noreturn]] void fail(const std::string& why) const { throw JsonError(why, text_, at_ + 1); }

  std::string_view text_;
  const JsonLimits& limits_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::uint64_t values_ = 0;
};

/// Applies the limits to nlohmann's CBOR reader, which recurses for each nested list.
class CborCounter final : public nlohmann::json_sax<json> {
 public:
  explicit CborCounter(const JsonLimits& limits) : limits_(limits) {}

  [[nodiscard]] const std::string& why() const { return why_; }

  bool null() override { return add(); }
  bool boolean(bool /*value*/) override { return add(); }
  bool number_integer(number_integer_t /*value*/) override { return add(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return add(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return add(); }
  bool string(string_t& /*value*/) override { return add(); }
  bool binary(binary_t& /*value*/) override { return add(); }
  bool key(string_t& /*value*/) override { return add(); }
  bool start_object(std::size_t /*elements*/) override { return enter(); }
  bool start_array(std::size_t /*elements*/) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t /*byte*/, const std::string& /*token*/, const json::exception& /*error*/) override {
    return stop("not CBOR");
  }

 private:
  bool add() { return ++values_ <= limits_.values || stop(too_many(limits_)); }
  bool enter() { return ++depth_ <= limits_.depth ? add() : stop(too_deep(limits_)); }
  bool leave() {
    --depth_;
    return true;
  }
  bool stop(std::string why) {
    why_ = std::move(why);
    return false;
  }

  const JsonLimits& limits_;
  std::uint64_t values_ = 0;
  int depth_ = 0;
  std::string why_;
};

void require_size(std::string_view text, const JsonLimits& limits) {
  if (text.size() <= limits.bytes) return;
  throw JsonError(
      fmt::format("it has {}; the limit for JSON is {}", text::bytes(text.size()), text::bytes(limits.bytes)), text, 0);
}

template <class Value>
Value parse_as(std::string_view text, const JsonLimits& limits, const typename Value::parser_callback_t& each) {
  require_bounded_json(text, limits);
  try {
    return Value::parse(text.begin(), text.end(), each);
  } catch (const typename Value::parse_error& error) {
    throw JsonError(JsonError::kNoJson, text, error.byte);
  } catch (const typename Value::out_of_range&) {
    throw JsonError("a number too large for a double", text, 0);
  }
}

}  // namespace

JsonError::JsonError(const std::string& why, std::string_view text, std::size_t byte)
    : DataError(placed(why, text, byte)), why_(why), byte_(byte) {}

void require_bounded_json(std::string_view text, const JsonLimits& limits) {
  require_size(text, limits);
  Counter(text, limits).require_bounded();
}

json parse_json(std::string_view text, const JsonLimits& limits, const json::parser_callback_t& each) {
  return parse_as<json>(text, limits, each);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonLimits& limits) {
  return parse_as<nlohmann::ordered_json>(text, limits, nullptr);
}

json json_or_null(std::string_view text, const JsonLimits& limits) {
  try {
    return parse_json(text, limits);
  } catch (const JsonError&) {
    return nullptr;
  }
}

bool read_json_events(std::string_view text, const JsonLimits& limits, nlohmann::json_sax<json>& to) {
  require_bounded_json(text, limits);
  return json::sax_parse(text.begin(), text.end(), &to);
}

json parse_cbor(std::string_view bytes, const JsonLimits& limits) {
  require_size(bytes, limits);
  CborCounter counter(limits);
  if (!json::sax_parse(bytes.begin(), bytes.end(), &counter, json::input_format_t::cbor)) {
    throw JsonError(counter.why(), bytes, 0);
  }
  return json::from_cbor(bytes.begin(), bytes.end());
}

json read_json_file(FileSystem& files, const std::filesystem::path& file, const JsonLimits& limits) {
  const std::string text = files.read(file, limits.bytes);
  try {
    return parse_json(text, limits);
  } catch (const JsonError& error) {
    throw DataError(fmt::format("{}: {}", file.string(), error.message()));
  }
}

}  // namespace lockstep
