// SPDX-License-Identifier: Apache-2.0
#include "view/tensorboard/messages.h"

#include <protozero/pbf_writer.hpp>

#include <array>
#include <cstring>

namespace lockstep::view {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78U;  // Castagnoli's, with its bits reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1U) ^ ((value & 1U) != 0 ? kPolynomial : 0U);
    table[i] = value;
  }
  return table;
}

constexpr auto kTable = make_table();

/// TFRecord rotates a checksum and adds a constant, because a CRC over bytes that contain CRCs is weak.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U; }

template <class Number>
std::string_view little_endian(const Number& value, char (&bytes)[sizeof(Number)]) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes[i] = static_cast<char>(value >> (8U * i));
  return {bytes, sizeof value};
}

using Writer = protozero::pbf_writer;

enum DataClass : std::int32_t { kTensorClass = 2 };
constexpr std::int32_t kStringType = 7;  // DataType DT_STRING

/// Writes a value of a Summary; `fill` adds its other fields.
template <class Fill>
void add_value(Writer& summary, std::string_view tag, Fill&& fill) {
  Writer value(summary, 1);
  value.add_string(1, tag.data(), tag.size());
  fill(value);
}

/// Writes SummaryMetadata: the plug-in of the value, and the plug-in's own data.
void add_plugin(Writer& value, std::string_view name, std::string_view content) {
  Writer metadata(value, 9);
  Writer plugin(metadata, 1);
  plugin.add_string(1, name.data(), name.size());
  if (!content.empty()) plugin.add_bytes(2, content.data(), content.size());
}

/// Returns a Summary with one value of the hparams plug-in, all of it in the metadata.
std::string hparams_bytes(std::string_view tag, int field, std::string_view content) {
  std::string data;
  Writer(data).add_message(static_cast<protozero::pbf_tag_type>(field), content.data(), content.size());
  std::string bytes;
  Writer summary(bytes);
  add_value(summary, tag, [&](Writer& value) { add_plugin(value, "hparams", data); });
  return bytes;
}

/// Returns a google.protobuf.Value.
std::string value_bytes(const HyperParameters::value_type::second_type& value) {
  std::string bytes;
  Writer writer(bytes);
  if (const auto* number = std::get_if<double>(&value)) writer.add_double(2, *number);
  if (const auto* text = std::get_if<std::string>(&value)) writer.add_string(3, *text);
  if (const auto* truth = std::get_if<bool>(&value)) writer.add_bool(4, *truth);
  return bytes;
}

/// Returns the plug-in's DataType: string, bool or float64.
std::int32_t kind_of(const HyperParameters::value_type::second_type& value) {
  return std::holds_alternative<std::string>(value) ? 1 : std::holds_alternative<bool>(value) ? 2 : 3;
}

unsigned encoded_byte(std::string_view bytes, std::size_t at) { return static_cast<unsigned char>(bytes[at]); }

std::int32_t big_endian(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = (value << 8U) | encoded_byte(bytes, at + i);
  return static_cast<std::int32_t>(value & 0x7FFFFFFFU);
}

/// Reads a JPEG's segments up to the one that contains the image size.
std::optional<ImageKind> jpeg_kind(std::string_view bytes) {
  for (std::size_t at = 2; at + 9 <= bytes.size() && encoded_byte(bytes, at) == 0xFF;) {
    const unsigned mark = encoded_byte(bytes, at + 1);
    const bool is_frame = mark >= 0xC0 && mark <= 0xCF && mark != 0xC4 && mark != 0xC8 && mark != 0xCC;
    if (is_frame) return ImageKind{big_endian(bytes, at + 7, 2), big_endian(bytes, at + 5, 2)};
    at += 2 + static_cast<std::size_t>(big_endian(bytes, at + 2, 2));
  }
  return std::nullopt;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8U);
  return ~crc;
}

void append_record(std::string& out, std::string_view payload) {
  char length[8];
  char crc[4];
  const auto size = static_cast<std::uint64_t>(payload.size());
  out += little_endian(size, length);
  out += little_endian(masked(crc32c({length, sizeof length})), crc);
  out += payload;
  out += little_endian(masked(crc32c(payload)), crc);
}

std::string event_bytes(double wall_time, std::int64_t step, int field, std::string_view content) {
  std::string bytes;
  bytes.reserve(content.size() + 32);
  Writer event(bytes);
  event.add_double(1, wall_time);
  if (step != 0) event.add_int64(2, step);
  event.add_bytes(static_cast<protozero::pbf_tag_type>(field), content.data(), content.size());
  return bytes;
}

std::string session_start_bytes() {
  constexpr std::int32_t kStart = 1;
  std::string bytes;
  Writer(bytes).add_enum(1, kStart);
  return bytes;
}

std::string scalars_bytes(const Scalars& points) {
  std::string bytes;
  Writer summary(bytes);
  for (const auto& [tag, number] : points) {
    add_value(summary, tag, [&](Writer& value) { value.add_float(2, static_cast<float>(number)); });
  }
  return bytes;
}

std::string histogram_bytes(std::string_view tag, const Histogram& histogram) {
  std::string bytes;
  Writer summary(bytes);
  add_value(summary, tag, [&](Writer& value) {
    Writer proto(value, 5);
    proto.add_double(1, histogram.min);
    proto.add_double(2, histogram.max);
    proto.add_double(3, histogram.count);
    proto.add_double(4, histogram.sum);
    proto.add_double(5, histogram.sum_squares);
    proto.add_packed_double(6, histogram.limits.begin(), histogram.limits.end());
    proto.add_packed_double(7, histogram.counts.begin(), histogram.counts.end());
  });
  return bytes;
}

std::string text_bytes(std::string_view tag, std::string_view markdown) {
  std::string bytes;
  Writer summary(bytes);
  add_value(summary, tag, [&](Writer& value) {
    add_plugin(value, "text", "");
    Writer tensor(value, 8);
    tensor.add_enum(1, kStringType);
    {
      Writer shape(tensor, 2);
      Writer dimension(shape, 2);
      dimension.add_int64(1, 1);
    }
    tensor.add_bytes(8, markdown.data(), markdown.size());
  });
  return bytes;
}

std::optional<ImageKind> image_kind(std::string_view encoded) {
  constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";
  if (encoded.starts_with(kPng) && encoded.size() >= 24) {
    return ImageKind{big_endian(encoded, 16, 4), big_endian(encoded, 20, 4)};
  }
  return encoded.starts_with("\xFF\xD8") ? jpeg_kind(encoded) : std::nullopt;
}

std::string image_bytes(std::string_view tag, const ImageKind& kind, std::string_view encoded) {
  constexpr std::int32_t kColor = 3;
  std::string bytes;
  Writer summary(bytes);
  add_value(summary, tag, [&](Writer& value) {
    Writer image(value, 4);
    image.add_int32(1, kind.height);
    image.add_int32(2, kind.width);
    image.add_int32(3, kColor);
    image.add_bytes(4, encoded.data(), encoded.size());
  });
  return bytes;
}

std::string hparams_start_bytes(const HyperParameters& settings, std::string_view group, double time) {
  std::string info;
  Writer writer(info);
  for (const auto& [name, value] : settings) {
    Writer entry(writer, 1);  // an entry of a map
    entry.add_string(1, name);
    entry.add_message(2, value_bytes(value));
  }
  if (!group.empty()) writer.add_string(4, group.data(), group.size());
  writer.add_double(5, time);
  return hparams_bytes("_hparams_/session_start_info", 3, info);
}

std::string hparams_end_bytes(bool success, double time) {
  std::string info;
  Writer writer(info);
  writer.add_enum(1, success ? 1 : 2);
  writer.add_double(2, time);
  return hparams_bytes("_hparams_/session_end_info", 4, info);
}

std::string hparams_columns_bytes(const HyperParameters& settings, const std::vector<std::string>& metrics,
                                  double time) {
  std::string experiment;
  Writer writer(experiment);
  writer.add_double(3, time);
  for (const auto& [name, value] : settings) {
    Writer info(writer, 4);
    info.add_string(1, name);
    info.add_enum(4, kind_of(value));
  }
  for (const std::string& tag : metrics) {
    Writer info(writer, 5);
    {
      Writer name(info, 1);
      name.add_string(2, tag);
    }
    info.add_string(2, tag);
  }
  return hparams_bytes("_hparams_/experiment", 2, experiment);
}

}  // namespace lockstep::view
