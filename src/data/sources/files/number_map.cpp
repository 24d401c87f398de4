// SPDX-License-Identifier: Apache-2.0
#include "data/sources/files/number_map.h"

#include <fmt/format.h>
#include <spng.h>

#include <memory>

#include "data/codec.h"

namespace lockstep::data {
namespace {

struct FreePngNumbers {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};
using PngNumbers = std::unique_ptr<spng_ctx, FreePngNumbers>;

constexpr std::size_t kMaxMaskChunkBytes = 16 << 20;

// Unpacks `depth`-bit numbers from rows of whole bytes, high bits first.
std::vector<std::uint16_t> unpacked(const std::vector<std::uint8_t>& raw, const spng_ihdr& header) {
  const std::size_t row_bytes = raw.size() / header.height;
  std::vector<std::uint16_t> values;
  values.reserve(std::size_t{header.width} * header.height);
  for (std::size_t y = 0; y < header.height; ++y) {
    const std::uint8_t* row = raw.data() + y * row_bytes;
    for (std::size_t x = 0; x < header.width; ++x) {
      if (header.bit_depth == 16) {
        values.push_back(static_cast<std::uint16_t>(row[2 * x] << 8 | row[2 * x + 1]));
      } else {
        const std::size_t bit = x * header.bit_depth;
        const int value = row[bit / 8] >> (8 - header.bit_depth - bit % 8);
        values.push_back(static_cast<std::uint16_t>(value & ((1 << header.bit_depth) - 1)));
      }
    }
  }
  return values;
}

}  // namespace

Result<NumberMap> decode_numbers(std::string_view bytes) {
  if (!is_png(bytes)) return Failure{"not a PNG file"};
  const PngNumbers context(spng_ctx_new(0));
  if (!context) return Failure{"not enough memory to decode it"};
  const auto failure = [](int code) { return Failure{fmt::format("damaged PNG ({})", spng_strerror(code))}; };
  spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  spng_set_chunk_limits(context.get(), kMaxMaskChunkBytes, kMaxMaskChunkBytes);
  if (const int code = spng_set_png_buffer(context.get(), bytes.data(), bytes.size()); code != 0) return failure(code);
  spng_ihdr header{};
  if (const int code = spng_get_ihdr(context.get(), &header); code != 0) return failure(code);
  if (const auto size = checked_size(header.width, header.height, bytes.size()); !size) return Failure{size.error()};
  if (header.color_type != SPNG_COLOR_TYPE_GRAYSCALE && header.color_type != SPNG_COLOR_TYPE_INDEXED) {
    return Failure{"a map has one channel, but this PNG has more"};
  }
  std::size_t size = 0;
  if (const int code = spng_decoded_image_size(context.get(), SPNG_FMT_PNG, &size); code != 0) return failure(code);
  if (!can_inflate_to(size, bytes.size())) {
    return Failure{fmt::format("damaged PNG: its header claims {} x {} pixels", header.width, header.height)};
  }
  std::vector<std::uint8_t> raw(size);
  // RAW: 16-bit numbers in the file's byte order, and palettes and small depths as they are stored.
  if (const int code = spng_decode_image(context.get(), raw.data(), size, SPNG_FMT_RAW, 0); code != 0)
    return failure(code);
  return NumberMap{{header.width, header.height}, unpacked(raw, header)};
}

}  // namespace lockstep::data
