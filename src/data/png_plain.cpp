// SPDX-License-Identifier: Apache-2.0
// Decodes plain PNGs, which are nearly all PNGs: 8 bits, gray, RGB or RGBA, not interlaced. libdeflate inflates them in
// one call rather than in zlib's steps, and pixels need no general format conversion. It reports no errors: libspng
// gets every file that is not plain, or is damaged.
#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "data/codec.h"
#include "data/pixel_kernel.h"

namespace lockstep::data {
namespace {

using Bytes = std::basic_string_view<unsigned char>;

constexpr std::size_t kSignature = 8;
constexpr std::size_t kHeader = 13;    // bytes of the content of IHDR
constexpr std::size_t kAround = 12;    // length, type and checksum of a chunk
constexpr std::size_t kReadAhead = 8;  // bytes after the last row that undo_paeth() may read

std::uint32_t number(const unsigned char* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* made) const noexcept { libdeflate_free_decompressor(made); }
};

/// A thread's buffers, reused for all its files.
struct Tools {
  std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor{libdeflate_alloc_decompressor()};
  std::vector<unsigned char> packed;  ///< the contents of all IDAT chunks, if there are several
  std::vector<unsigned char> rows;    ///< for each row, the number of its filter and the filtered bytes
};

Tools& tools() {
  static thread_local Tools made;
  return made;
}

struct Chunk {
  std::uint32_t type = 0;
  Bytes content;
};

constexpr std::uint32_t type_of(const char (&name)[5]) {
  return static_cast<std::uint32_t>(name[0]) << 24 | static_cast<std::uint32_t>(name[1]) << 16 |
         static_cast<std::uint32_t>(name[2]) << 8 | static_cast<std::uint32_t>(name[3]);
}

/// Returns the next chunk; none if the file ends or the checksum is wrong.
std::optional<Chunk> next_chunk(Bytes& rest) {
  if (rest.size() < kAround) return std::nullopt;
  const std::size_t length = number(rest.data());
  if (length > rest.size() - kAround) return std::nullopt;
  const Chunk chunk{number(rest.data() + 4), rest.substr(8, length)};
  if (libdeflate_crc32(0, rest.data() + 4, length + 4) != number(rest.data() + 8 + length)) return std::nullopt;
  rest.remove_prefix(length + kAround);
  return chunk;
}

struct Layout {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 0;  ///< 1, 3 or 4

  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(width * channels); }
  [[nodiscard]] std::size_t filtered_bytes() const { return static_cast<std::size_t>(height) * (1 + row_bytes()); }
};

std::optional<Layout> plain_layout(const Chunk& header, std::size_t file_bytes) {
  if (header.type != type_of("IHDR") || header.content.size() != kHeader) return std::nullopt;
  const unsigned char* at = header.content.data();
  const bool plain = at[8] == 8 && at[10] == 0 && at[11] == 0 && at[12] == 0;
  const int channels = at[9] == 0 ? 1 : at[9] == 2 ? 3 : at[9] == 6 ? 4 : 0;
  const Layout layout{number(at), number(at + 4), channels};
  const bool sized =
      layout.width > 0 && layout.height > 0 && checked_size(layout.width, layout.height, file_bytes).ok();
  return plain && channels != 0 && sized ? std::optional(layout) : std::nullopt;
}

/// Returns the content of the consecutive IDAT chunks; none if the file is damaged or truncated.
std::optional<Bytes> packed_pixels(Bytes rest) {
  std::vector<unsigned char>& joined = tools().packed;
  joined.clear();
  Bytes first;
  bool ended = false;
  for (auto chunk = next_chunk(rest); chunk; chunk = next_chunk(rest)) {
    if (chunk->type == type_of("IDAT")) {
      if (ended) return std::nullopt;
      if (!joined.empty() || !first.empty()) {
        if (joined.empty()) joined.assign(first.begin(), first.end());
        joined.insert(joined.end(), chunk->content.begin(), chunk->content.end());
      } else {
        first = chunk->content;
      }
      continue;
    }
    ended = ended || !first.empty();
    if (chunk->type == type_of("IEND")) return joined.empty() ? first : Bytes(joined.data(), joined.size());
    const bool critical = (chunk->type & 0x20000000U) == 0;
    if (critical || chunk->type == type_of("tRNS")) return std::nullopt;
  }
  return std::nullopt;
}

bool inflate_rows(Bytes packed, std::size_t bytes) {
  if (!can_inflate_to(bytes, packed.size())) return false;  // checked before memory is allocated
  Tools& with = tools();
  with.rows.resize(std::max(with.rows.size(), bytes + kReadAhead));
  std::size_t used = 0;
  std::size_t made = 0;
  const auto result = libdeflate_zlib_decompress_ex(with.decompressor.get(), packed.data(), packed.size(),
                                                    with.rows.data(), bytes, &used, &made);
  return result == LIBDEFLATE_SUCCESS && used == packed.size() && made == bytes;
}

/// Restores one row, each byte predicted from its neighbours by `predict`.
template <int kChannels, class Predict>
void add_predicted(unsigned char* row, const unsigned char* above, std::size_t bytes, const Predict& predict) {
  std::array<int, kChannels> left{};
  std::array<int, kChannels> corner{};
  for (std::size_t i = 0; i < bytes; i += kChannels) {
    for (int c = 0; c < kChannels; ++c) {
      const int up = above[i + c];
      row[i + c] = static_cast<unsigned char>(row[i + c] + predict(left[c], up, corner[c]));
      left[c] = row[i + c];
      corner[c] = up;
    }
  }
}

/// Returns PNG's Paeth predictor: left, above or above left, whichever is nearest to left + above - above left.
int nearest(int left, int above, int corner) {
  const int to_left = std::abs(above - corner);
  const int to_above = std::abs(left - corner);
  const int to_corner = std::abs(left + above - 2 * corner);
  if (to_left <= to_above && to_left <= to_corner) return left;
  return to_above <= to_corner ? above : corner;
}

template <int kChannels>
bool unfilter(int filter, unsigned char* row, const unsigned char* above, std::size_t bytes) {
  switch (filter) {
    case 0:
      return true;
    case 1:
      add_predicted<kChannels>(row, above, bytes, [](int left, int, int) { return left; });
      return true;
    case 2:
      for (std::size_t i = 0; i < bytes; ++i) row[i] = static_cast<unsigned char>(row[i] + above[i]);
      return true;
    case 3:
      add_predicted<kChannels>(row, above, bytes, [](int left, int up, int) { return (left + up) / 2; });
      return true;
    case 4:
      if constexpr (kChannels == 1) {
        add_predicted<1>(row, above, bytes, nearest);
      } else {
        undo_paeth(row, above, bytes, kChannels);
      }
      return true;
    default:
      return false;
  }
}

bool unfilter_row(int channels, int filter, unsigned char* row, const unsigned char* above, std::size_t bytes) {
  if (channels == 1) return unfilter<1>(filter, row, above, bytes);
  return channels == 3 ? unfilter<3>(filter, row, above, bytes) : unfilter<4>(filter, row, above, bytes);
}

/// Appends the row to `pixels`, converted to `mode`.
void put_row(const unsigned char* row, const Layout& layout, ColorMode mode, std::vector<std::uint8_t>& pixels) {
  const auto width = static_cast<std::size_t>(layout.width);
  const std::size_t bytes = layout.row_bytes();
  if (layout.channels == (mode == ColorMode::kGray ? 1 : 3)) {
    pixels.insert(pixels.end(), row, row + bytes);
    return;
  }
  if (layout.channels == 1) {
    for (std::size_t x = 0; x < width; ++x) pixels.insert(pixels.end(), 3, row[x]);
    return;
  }
  static thread_local std::vector<std::uint8_t> rgb;
  if (layout.channels == 4) {
    rgb.resize(3 * width);
    for (std::size_t x = 0; x < width; ++x) std::copy_n(row + 4 * x, 3, rgb.data() + 3 * x);
    row = rgb.data();
  }
  if (mode == ColorMode::kRgb) {
    pixels.insert(pixels.end(), row, row + 3 * width);
  } else {
    pixels.resize(pixels.size() + width);
    rgb_to_gray(row, width, pixels.data() + pixels.size() - width);
  }
}

}  // namespace

std::optional<Image> decode_plain_png(std::string_view bytes, ColorMode mode) {
  Bytes rest(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  rest.remove_prefix(std::min(kSignature, rest.size()));
  const std::optional<Chunk> header = next_chunk(rest);
  const std::optional<Layout> layout = header ? plain_layout(*header, bytes.size()) : std::nullopt;
  if (!layout) return std::nullopt;
  const std::optional<Bytes> packed = packed_pixels(rest);
  if (!packed || !inflate_rows(*packed, layout->filtered_bytes())) return std::nullopt;
  Image image{{layout->width, layout->height}, mode == ColorMode::kGray ? 1 : 3, {}};
  image.pixels.reserve(static_cast<std::size_t>(layout->width * layout->height * image.channels));
  const std::size_t row_bytes = layout->row_bytes();
  const std::vector<unsigned char> nothing(row_bytes + kReadAhead);
  const unsigned char* above = nothing.data();
  unsigned char* row = tools().rows.data();
  for (std::int64_t y = 0; y < layout->height; ++y, row += row_bytes + 1) {
    if (!unfilter_row(layout->channels, row[0], row + 1, above, row_bytes)) return std::nullopt;
    put_row(row + 1, *layout, mode, image.pixels);
    above = row + 1;
  }
  return image;
}

}  // namespace lockstep::data
