// SPDX-License-Identifier: Apache-2.0
// Decodes PNG with libspng, for files that the faster png_plain.cpp does not support.
#include <fmt/format.h>
#include <spng.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "data/codec.h"
#include "data/pixel_kernel.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kMaxChunkBytes = 16 << 20;  // limit of a text or profile chunk, whose content is never used here

struct FreeContext {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, FreeContext>;

Failure failure(int code) {
  if (code == SPNG_IO_EOF || code == SPNG_EIDAT_TOO_SHORT) return {"truncated PNG"};
  return {fmt::format("damaged PNG ({})", spng_strerror(code))};
}

int read_header(spng_ctx* context, std::string_view bytes, spng_ihdr* header) {
  spng_set_crc_action(context, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  spng_set_chunk_limits(context, kMaxChunkBytes, kMaxChunkBytes);
  if (const int code = spng_set_png_buffer(context, bytes.data(), bytes.size()); code != 0) return code;
  return spng_get_ihdr(context, header);
}

// Reads the pixels, then the chunks after them: a file without its end counts as truncated, even if it has all pixels.
int read_pixels(spng_ctx* context, spng_format format, std::vector<std::uint8_t>& pixels) {
  std::size_t bytes = 0;
  if (const int code = spng_decoded_image_size(context, format, &bytes); code != 0) return code;
  pixels.resize(bytes);
  if (const int code = spng_decode_image(context, pixels.data(), bytes, format, 0); code != 0) return code;
  return spng_decode_chunks(context);
}

/// A header that claims more pixels than its file can hold is rejected before memory is allocated.
bool can_hold(std::string_view bytes, const spng_ihdr& header) {
  constexpr std::array<std::uint64_t, 7> kSamples = {1, 1, 3, 1, 2, 1, 4};  // samples of a pixel, by colour type
  const std::uint64_t row_bits = header.width * kSamples[header.color_type % kSamples.size()] * header.bit_depth;
  return can_inflate_to(header.height * (1 + row_bits / 8), bytes.size());
}

Result<Image> decode_colors(std::string_view bytes, ColorMode mode) {
  if (auto plain = decode_plain_png(bytes, mode)) return *std::move(plain);
  const Context context(spng_ctx_new(0));
  if (!context) return Failure{"not enough memory to decode it"};
  spng_ihdr header{};
  if (const int code = read_header(context.get(), bytes, &header); code != 0) return failure(code);
  if (const auto size = checked_size(header.width, header.height, bytes.size()); !size) return Failure{size.error()};
  if (!can_hold(bytes, header)) {
    return Failure{fmt::format("damaged PNG: its header claims {} x {} pixels", header.width, header.height)};
  }
  Image image{{header.width, header.height}, mode == ColorMode::kGray ? 1 : 3, {}};
  const bool already_gray = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && header.bit_depth <= 8;
  if (mode == ColorMode::kGray && already_gray) {
    if (const int code = read_pixels(context.get(), SPNG_FMT_G8, image.pixels); code != 0) return failure(code);
    return image;
  }
  std::vector<std::uint8_t> rgb;
  if (const int code = read_pixels(context.get(), SPNG_FMT_RGB8, rgb); code != 0) return failure(code);
  if (mode == ColorMode::kRgb) {
    image.pixels = std::move(rgb);
  } else {
    image.pixels.resize(rgb.size() / 3);
    rgb_to_gray(rgb.data(), image.pixels.size(), image.pixels.data());
  }
  return image;
}

bool has_one_color(const Image& image) {
  const auto channels = static_cast<std::ptrdiff_t>(image.channels);
  return std::equal(image.pixels.begin() + channels, image.pixels.end(), image.pixels.begin());
}

/// Returns the opacity of each pixel; none if all pixels are equally opaque, or the file has no transparency.
std::optional<std::vector<std::uint8_t>> opacities(std::string_view bytes) {
  constexpr std::size_t kChannels = 4;
  const Context context(spng_ctx_new(0));
  spng_ihdr header{};
  if (!context || read_header(context.get(), bytes, &header) != 0) return std::nullopt;
  spng_trns key{};
  const bool has_channel = (header.color_type & 4U) != 0;
  if (!has_channel && spng_get_trns(context.get(), &key) != 0) return std::nullopt;
  std::vector<std::uint8_t> pixels(std::size_t{header.width} * header.height * kChannels);
  if (spng_decode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_RGBA8, SPNG_DECODE_TRNS) != 0) {
    return std::nullopt;
  }
  std::vector<std::uint8_t> alpha(pixels.size() / kChannels);
  for (std::size_t i = 0; i < alpha.size(); ++i) alpha[i] = pixels[kChannels * i + 3];
  const bool alike = std::ranges::all_of(alpha, [&](std::uint8_t value) { return value == alpha.front(); });
  return alike ? std::nullopt : std::optional(std::move(alpha));
}

/// Transparency is ignored, as in Pillow. But an image of one colour, such as black letters without a background, has
/// its content only in its transparency: it is placed on white, or on black if its colour is light.
void show_transparency(std::string_view bytes, Image& image) {
  if (!has_one_color(image)) return;
  const auto alpha = opacities(bytes);
  if (!alpha) return;
  constexpr unsigned kLight = 128;
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::vector<std::uint8_t> color(image.pixels.begin(), image.pixels.begin() + image.channels);
  const bool is_dark = *std::ranges::max_element(color) < kLight;
  const unsigned ground = is_dark ? 255 : 0;
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    const unsigned share = (*alpha)[i / channels];
    image.pixels[i] = static_cast<std::uint8_t>((color[i % channels] * share + ground * (255 - share) + 127) / 255);
  }
  set_oddity(Oddity::kTransparency,
             fmt::format("it is all one colour, and only its alpha channel holds the image: it is drawn on {}",
                         is_dark ? "white" : "black"));
}

}  // namespace

bool is_png(std::string_view bytes) noexcept { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

Result<ImageSize> png_size(std::string_view bytes) {
  const Context context(spng_ctx_new(0));
  if (!context) return Failure{"not enough memory to decode it"};
  spng_ihdr header{};
  if (const int code = read_header(context.get(), bytes, &header); code != 0) return failure(code);
  return checked_size(header.width, header.height, bytes.size());
}

Result<Image> decode_png(std::string_view bytes, ColorMode mode) {
  Result<Image> image = decode_colors(bytes, mode);
  if (image) show_transparency(bytes, *image);
  return image;
}

}  // namespace lockstep::data
