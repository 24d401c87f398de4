// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/scalar_json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/json.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kMaxScalarBytes = 16U << 20U;  // limit for the JSON text of a plain value

std::string double_to_json(double value) {
  if (std::isnan(value)) return R"({"float":"nan"})";
  if (std::isinf(value)) return value > 0 ? R"({"float":"inf"})" : R"({"float":"-inf"})";
  std::string text = fmt::format("{}", value);  // the shortest text that reads back as the same bits
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string too_long(std::size_t bytes) {
  return fmt::format("a plain value of {} bytes; the limit is {}, and larger data belong in a tensor", bytes,
                     kMaxScalarBytes);
}

Result<Scalar> non_finite(const nlohmann::json& object) {
  const auto found = object.size() == 1 ? object.find("float") : object.end();
  if (found != object.end() && *found == "nan") return Scalar{std::numeric_limits<double>::quiet_NaN()};
  if (found != object.end() && *found == "inf") return Scalar{std::numeric_limits<double>::infinity()};
  if (found != object.end() && *found == "-inf") return Scalar{-std::numeric_limits<double>::infinity()};
  return Failure{"an object other than {\"float\": \"nan\", \"inf\" or \"-inf\"}"};
}

}  // namespace

Result<std::string> quote_json(std::string_view text) {
  try {
    return nlohmann::json(std::string(text)).dump();
  } catch (const nlohmann::json::exception&) {
    return Failure{"text that is not UTF-8"};
  }
}

Result<std::string> scalar_to_json(const Scalar& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) return double_to_json(*real);
  if (const auto* flag = std::get_if<bool>(&value)) return std::string(*flag ? "true" : "false");
  auto text = quote_json(std::get<std::string>(value));
  if (text && text->size() > kMaxScalarBytes) return Failure{too_long(text->size())};
  return text;
}

Result<Scalar> scalar_from_json(std::string_view json) {
  if (json.size() > kMaxScalarBytes) return Failure{too_long(json.size())};
  nlohmann::json value;
  try {
    value = parse_json(json, {.bytes = kMaxScalarBytes, .depth = 4});
  } catch (const JsonError& error) {
    return Failure{error.message()};
  }
  if (value.is_boolean()) return Scalar{value.get<bool>()};
  if (value.is_string()) return Scalar{value.get<std::string>()};
  if (value.is_number_float()) return Scalar{value.get<double>()};
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    return Failure{"an integer of more than 64 bits"};
  }
  if (value.is_number_integer()) return Scalar{value.get<std::int64_t>()};
  if (value.is_object()) return non_finite(value);
  return Failure{fmt::format("a JSON {}", value.type_name())};
}

}  // namespace lockstep::checkpoint
