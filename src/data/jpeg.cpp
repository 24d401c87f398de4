// SPDX-License-Identifier: Apache-2.0
// JPEG through libjpeg-turbo. Gray goes by way of RGB, as Pillow's does: the file's own luma differs by a step here and
// there.
#include <fmt/format.h>
#include <turbojpeg.h>

#include <memory>
#include <type_traits>

#include "data/codec.h"

namespace lockstep::data {
namespace {

struct Destroy {
  void operator()(void* handle) const noexcept { tjDestroy(handle); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<tjhandle>, Destroy>;

Failure failure(tjhandle handle) {
  const std::string_view words = tjGetErrorStr2(handle);
  if (words.find("remature end") != std::string_view::npos) return {"truncated JPEG"};
  return {fmt::format("damaged JPEG ({})", words)};
}

struct Header {
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colors = 0;
};

const unsigned char* data_of(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

bool read_header(tjhandle handle, std::string_view bytes, Header& header) {
  return tjDecompressHeader3(handle, data_of(bytes), bytes.size(), &header.width, &header.height, &header.subsampling,
                             &header.colors) == 0;
}

}  // namespace

bool is_jpeg(std::string_view bytes) noexcept { return bytes.starts_with("\xff\xd8\xff"); }

Result<ImageSize> jpeg_size(std::string_view bytes) {
  const Handle handle(tjInitDecompress());
  if (!handle) return Failure{"no memory to decode it"};
  Header header;
  if (!read_header(handle.get(), bytes, header)) return failure(handle.get());
  return checked_size(header.width, header.height);
}

Result<Image> decode_jpeg(std::string_view bytes, ColorMode mode) {
  const Handle handle(tjInitDecompress());
  if (!handle) return Failure{"no memory to decode it"};
  Header header;
  if (!read_header(handle.get(), bytes, header)) return failure(handle.get());
  const auto [width, height, subsampling, colors] = header;
  if (const auto size = checked_size(width, height); !size) return Failure{size.error()};
  if (colors == TJCS_CMYK || colors == TJCS_YCCK) return Failure{"a CMYK JPEG; only gray and RGB ones are read"};
  const bool gray = mode == ColorMode::kGray;
  const bool already_gray = colors == TJCS_GRAY;
  Image image{{width, height}, gray ? 1 : 3, {}};
  const auto pixels = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  const bool one_channel = gray && already_gray;
  std::vector<std::uint8_t> decoded(pixels * (one_channel ? 1 : 3));
  if (tjDecompress2(handle.get(), data_of(bytes), bytes.size(), decoded.data(), width, 0, height,
                    one_channel ? TJPF_GRAY : TJPF_RGB, 0) != 0) {
    return failure(handle.get());  // warnings too: a JPEG cut short is one, with the rest gray
  }
  if (!gray || one_channel) {
    image.pixels = std::move(decoded);
  } else {
    image.pixels.resize(pixels);
    rgb_to_gray(decoded.data(), pixels, image.pixels.data());
  }
  return image;
}

}  // namespace lockstep::data
