// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spng.h>

#include <cstdlib>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/contact_sheet.h"

namespace lockstep {
namespace {

struct FreeSheetWriter {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};
struct FreeMemory {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

void check(int code, const std::filesystem::path& path) {
  if (code != 0) throw IoError(fmt::format("cannot make image {}: {}", path.string(), spng_strerror(code)));
}

}  // namespace

void write_png(const Image& image, const std::filesystem::path& path) {
  if (image.channels != 1 && image.channels != 3) {
    throw UsageError(fmt::format("a PNG of {} channels cannot be written; 1 or 3 can", image.channels));
  }
  const std::unique_ptr<spng_ctx, FreeSheetWriter> context(spng_ctx_new(SPNG_CTX_ENCODER));
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(image.size.width);
  header.height = static_cast<std::uint32_t>(image.size.height);
  header.bit_depth = 8;
  header.color_type = image.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  check(spng_set_ihdr(context.get(), &header), path);
  check(spng_encode_image(context.get(), image.pixels.data(), image.pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE),
        path);
  std::size_t size = 0;
  int fault = 0;
  const std::unique_ptr<void, FreeMemory> png(spng_get_png_buffer(context.get(), &size, &fault));
  check(fault, path);
  write_file_atomically(FileSystem::system(), path, {static_cast<const char*>(png.get()), size});
}

}  // namespace lockstep
