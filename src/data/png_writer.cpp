// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/png_writer.h"

#include <fmt/format.h>
#include <spng.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

struct FreePngEncoder {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};
using PngEncoder = std::unique_ptr<spng_ctx, FreePngEncoder>;

void require_encoded(int code) {
  if (code != 0) throw InternalError(fmt::format("cannot encode a PNG: {}", spng_strerror(code)));
}

void set_options(spng_ctx* context, const PngOptions& options) {
  require_encoded(spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1));
  if (options.compression) {
    require_encoded(spng_set_option(context, SPNG_IMG_COMPRESSION_LEVEL, *options.compression));
  }
  if (options.filter == PngFilter::kBest) return;
  const int filter = options.filter == PngFilter::kSub ? SPNG_FILTER_CHOICE_SUB : SPNG_FILTER_CHOICE_NONE;
  require_encoded(spng_set_option(context, SPNG_FILTER_CHOICE, filter));
}

}  // namespace

std::string encode_png(const PixelView& pixels, const PngOptions& options) {
  if (pixels.channels != 1 && pixels.channels != 3) {
    throw UsageError(fmt::format("cannot write a PNG with {} channels, only with 1 or 3", pixels.channels));
  }
  const PngEncoder context(spng_ctx_new(SPNG_CTX_ENCODER));
  if (!context) throw std::bad_alloc();
  set_options(context.get(), options);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(pixels.size.width);
  header.height = static_cast<std::uint32_t>(pixels.size.height);
  header.bit_depth = 8;
  header.color_type = pixels.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  require_encoded(spng_set_ihdr(context.get(), &header));
  constexpr int kRowByRow = SPNG_ENCODE_PROGRESSIVE | SPNG_ENCODE_FINALIZE;
  require_encoded(spng_encode_image(context.get(), nullptr, 0, SPNG_FMT_PNG, kRowByRow));
  const auto row_bytes = static_cast<std::size_t>(pixels.row_bytes());
  for (std::int64_t y = 0; y < pixels.size.height; ++y) {
    const int code = spng_encode_row(context.get(), pixels.row(y), row_bytes);
    if (code != SPNG_EOI) require_encoded(code);
  }
  std::size_t size = 0;
  int code = 0;
  const std::unique_ptr<void, decltype(&std::free)> bytes(spng_get_png_buffer(context.get(), &size, &code), std::free);
  require_encoded(code);
  return {static_cast<const char*>(bytes.get()), size};
}

}  // namespace lockstep
