// SPDX-License-Identifier: Apache-2.0
#include "captioning/data/npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "captioning/metrics/tokens.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::captioning {
namespace {

constexpr std::string_view kFeatureArray = "feat";
constexpr std::int64_t kMostFeatureValues = std::int64_t{1} << 24U;
constexpr std::uint64_t kMostFeatureBytes = 8 * static_cast<std::uint64_t>(kMostFeatureValues) + (1U << 17U);

constexpr std::uint64_t kMostNpzBytes = 2 * kMostFeatureBytes;  // leaves room for other arrays (boxes, scores)

static_assert(std::endian::native == std::endian::little, "values are copied as stored in the file");

/// The number of bytes of a value, or 0 for an unsupported type.
std::int64_t bytes_of_type(const std::string& descr) {
  if (descr == "<f2") return 2;
  if (descr == "<f4") return 4;
  return descr == "<f8" ? 8 : 0;
}

std::string type_problem(const std::string& descr) {
  if (descr.find('O') != std::string::npos) return "it holds Python objects, which are never unpickled";
  return fmt::format("its type is '{}'; it must be '<f2', '<f4' or '<f8'", shown(descr));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t side : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", side);
  return "(" + text + ")";
}

/// Returns the problem with a shape, given `count` bytes of values; "" if there is none.
std::string shape_problem(const NpyHeader& header, std::size_t count) {
  const std::string shape = shape_text(header.shape);
  if (header.shape.size() < 2) return fmt::format("its shape is {}, must be (rows, width)", shape);
  std::int64_t values = 1;
  for (const std::int64_t side : header.shape) {
    if (side == 0) return fmt::format("its shape {} is empty", shape);
    if (side > kMostFeatureValues / values) {
      return fmt::format("its shape {} has more than the maximum of {} values", shape, kMostFeatureValues);
    }
    values *= side;
  }
  const auto wanted = static_cast<std::uint64_t>(values * bytes_of_type(header.descr));
  if (wanted == count) return "";
  return fmt::format("it has {} bytes of values, but its shape {} of '{}' needs {}", count, shape, header.descr,
                     wanted);
}

/// Converts from IEEE 754 binary16.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  const std::uint32_t exponent = half >> 10U & 0x1fU;
  const std::uint32_t fraction = half & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: fraction x 2^-24
    const float value = static_cast<float>(fraction) * 0x1.0p-24F;
    return sign == 0 ? value : -value;
  }
  const std::uint32_t widened = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | widened << 23U | fraction << 13U);
}

template <class Value>
Value value_at(std::string_view bytes, std::int64_t index) {
  Value value;
  std::memcpy(&value, bytes.data() + index * static_cast<std::int64_t>(sizeof(Value)), sizeof(Value));
  return value;
}

float number_at(std::string_view bytes, std::int64_t index, std::int64_t size) {
  if (size == 2) return from_half(value_at<std::uint16_t>(bytes, index));
  if (size == 4) return value_at<float>(bytes, index);
  return static_cast<float>(value_at<double>(bytes, index));
}

/// The offsets of the rows in an array in Fortran order, whose first dimension is contiguous; rows are numbered in C
/// order of the remaining dimensions.
std::vector<std::int64_t> fortran_rows(const std::vector<std::int64_t>& shape, std::int64_t rows) {
  std::vector<std::int64_t> starts;
  starts.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row;
    std::int64_t start = 0;
    for (std::size_t side = shape.size() - 1; side-- > 0;) {
      start = start * shape[side] + rest % shape[side];
      rest /= shape[side];
    }
    starts.push_back(start);
  }
  return starts;
}

FeatureRows convert(const NpyHeader& header, std::string_view bytes, std::int64_t rows_wanted) {
  const std::int64_t size = bytes_of_type(header.descr);
  FeatureRows out{.rows = 1, .width = header.shape.back(), .values = {}};
  for (std::size_t side = 0; side + 1 < header.shape.size(); ++side) out.rows *= header.shape[side];
  const std::int64_t step = header.fortran_order ? out.rows : 1;
  const std::int64_t all = out.rows;
  if (rows_wanted >= 0) out.rows = std::min(out.rows, rows_wanted);
  out.values.resize(static_cast<std::size_t>(out.rows * out.width));
  if (size == 4 && !header.fortran_order) {
    std::memcpy(out.values.data(), bytes.data(), out.values.size() * sizeof(float));
    return out;
  }
  const std::vector<std::int64_t> starts =
      header.fortran_order ? fortran_rows(header.shape, all) : std::vector<std::int64_t>();
  for (std::int64_t row = 0; row < out.rows; ++row) {
    const std::int64_t start = header.fortran_order ? starts[static_cast<std::size_t>(row)] : row * out.width;
    float* to = out.values.data() + row * out.width;
    for (std::int64_t column = 0; column < out.width; ++column) {
      to[column] = number_at(bytes, start + column * step, size);
    }
  }
  return out;
}

}  // namespace

Result<FeatureRows> parse_features(std::string_view npz, std::int64_t most_rows) {
  const auto content = read_zip_member(npz, fmt::format("{}.npy", kFeatureArray), kMostFeatureBytes);
  if (!content) return Failure{content.error()};
  const std::string_view bytes = content->bytes();
  const auto failure = [](const std::string& problem) {
    return Failure{fmt::format("array '{}': {}", kFeatureArray, problem)};
  };
  const auto header = parse_npy_header(bytes);
  if (!header) return failure(header.error());
  if (bytes_of_type(header->descr) == 0) return failure(type_problem(header->descr));
  const std::string_view values = bytes.substr(header->size);
  if (const std::string problem = shape_problem(*header, values.size()); !problem.empty()) return failure(problem);
  FeatureRows rows = convert(*header, values, most_rows);
  const auto bad = std::ranges::find_if(rows.values, [](float value) { return !std::isfinite(value); });
  if (bad == rows.values.end()) return rows;
  const std::int64_t place = bad - rows.values.begin();
  return failure(fmt::format("value {} of row {} is {}", place % rows.width, place / rows.width, *bad));
}

FeatureRows read_features(const std::filesystem::path& file, std::int64_t most_rows) {
  auto rows = parse_features(FileSystem::system().read(file, kMostNpzBytes), most_rows);
  if (rows) return std::move(*rows);
  throw DataError(fmt::format("features {}: {}", file.string(), rows.error()),
                  "write features with numpy.savez(file, feat=array), where array holds (rows, width) floats");
}

}  // namespace lockstep::captioning
