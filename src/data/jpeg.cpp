// SPDX-License-Identifier: Apache-2.0
// Decodes JPEG with libjpeg-turbo's own interface, which can skip pixels outside a region. Gray is converted from RGB,
// as in Pillow: the file's own luma differs by 1 in some pixels.
//
// libjpeg reports errors with a longjmp out of its functions. So every call to it is in a `step`, a function without
// any objects that need destroying.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
// jpeglib.h needs stdio.h before it.
#include <jerror.h>
#include <jpeglib.h>

#include "data/codec.h"
#include "data/pixel_kernel.h"

namespace lockstep::data {
namespace {

// A progressive file may repeat scans forever; real files have about ten.
constexpr int kMaxScans = 500;

// Chroma is upsampled from neighbouring pixels. With this many extra columns and rows around it, a region's pixels
// equal those of the whole image.
constexpr std::int64_t kMargin = 2;

struct Faults {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> words;
  bool truncated;
  std::array<char, JMSG_LENGTH_MAX> warning;  ///< the first warning that leaves the pixels intact
  bool warned;
};

Faults& faults_of(j_common_ptr info) { return *reinterpret_cast<Faults*>(info->err); }

[[noreturn]] void jump_out(j_common_ptr info) {
  Faults& faults = faults_of(info);
  faults.truncated = faults.base.msg_code == JWRN_JPEG_EOF || faults.base.msg_code == JERR_INPUT_EOF;
  (*faults.base.format_message)(info, faults.words.data());
  std::longjmp(faults.jump, 1);
}

// These libjpeg warnings leave every pixel as in the file. All other warnings are errors: the rest of a truncated JPEG
// would be gray, and a progression with gaps may lack a scan. Extra bytes before a restart marker belong to a damaged
// part; before other markers, they were added by cameras and tools.
bool is_harmless(const jpeg_error_mgr& error) {
  switch (error.msg_code) {
    case JWRN_EXTRANEOUS_DATA:
      return error.msg_parm.i[1] < JPEG_RST0 || error.msg_parm.i[1] > JPEG_RST0 + 7;
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  Faults& faults = faults_of(info);
  if (!is_harmless(faults.base)) jump_out(info);
  if (!faults.warned) (*faults.base.format_message)(info, faults.warning.data());
  faults.warned = true;
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) ERREXIT(info, JERR_BAD_PROGRESSION);
}

/// A thread's decoder, reused for all its files.
struct Decoder {
  jpeg_decompress_struct info{};
  Faults faults{};
  jpeg_progress_mgr progress{};
  std::vector<std::uint8_t> rows;  ///< buffer for one call to jpeg_read_scanlines

  Decoder() {
    info.err = jpeg_std_error(&faults.base);
    faults.base.error_exit = jump_out;
    faults.base.emit_message = on_message;
    if (setjmp(faults.jump) == 0) jpeg_create_decompress(&info);
    progress.progress_monitor = on_progress;
    info.progress = &progress;
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  [[nodiscard]] Failure failure() const {
    if (faults.truncated) return {"truncated JPEG"};
    return {fmt::format("damaged JPEG ({})", faults.words.data())};
  }
};

Decoder& decoder() {
  static thread_local Decoder made;
  return made;
}

/// The part of a file to decode, in pixels of the shrunk image.
struct Plan {
  std::string_view bytes;
  Region region;  ///< the region to decode
  std::int64_t shrink = 1;
  int channels = 3;      ///< channels of libjpeg's rows
  JDIMENSION first = 0;  ///< first column of libjpeg's rows
  JDIMENSION width = 0;  ///< width of libjpeg's rows
  std::uint8_t* out = nullptr;
  int out_channels = 3;
};

void read_header(Decoder& decoder, Plan& plan) {
  jpeg_mem_src(&decoder.info, reinterpret_cast<const unsigned char*>(plan.bytes.data()), plan.bytes.size());
  jpeg_read_header(&decoder.info, TRUE);
}

// Starts decoding. libjpeg then knows which columns to compute.
void start(Decoder& decoder, Plan& plan) {
  jpeg_decompress_struct& info = decoder.info;
  info.out_color_space = plan.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(plan.shrink);
  jpeg_start_decompress(&info);
  const std::int64_t all = info.output_width;
  const std::int64_t left = std::max<std::int64_t>(plan.region.left - kMargin, 0);
  const std::int64_t right = std::min(plan.region.left + plan.region.size.width + kMargin, all);
  plan.first = static_cast<JDIMENSION>(left);
  plan.width = static_cast<JDIMENSION>(right - left);
  if (plan.width < info.output_width) jpeg_crop_scanline(&info, &plan.first, &plan.width);
}

void put_row(const Plan& plan, const std::uint8_t* row, std::int64_t y) {
  const std::int64_t width = plan.region.size.width;
  const std::uint8_t* from = row + (plan.region.left - plan.first) * plan.channels;
  std::uint8_t* to = plan.out + (y - plan.region.top) * width * plan.out_channels;
  if (plan.channels == plan.out_channels) {
    std::memcpy(to, from, static_cast<std::size_t>(width * plan.out_channels));
  } else {
    rgb_to_gray(from, static_cast<std::size_t>(width), to);
  }
}

// The number of rows that `rows` can hold.
constexpr int kRowsAtOnce = 4;

void read_rows(Decoder& decoder, Plan& plan) {
  jpeg_decompress_struct& info = decoder.info;
  std::array<JSAMPROW, kRowsAtOnce> rows;
  for (int i = 0; i < kRowsAtOnce; ++i) rows[i] = decoder.rows.data() + i * info.output_width * plan.channels;
  const std::int64_t above = std::max<std::int64_t>(plan.region.top - kMargin, 0);
  if (above > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(above));
  const std::int64_t end = plan.region.top + plan.region.size.height;
  while (info.output_scanline < end) {
    const std::int64_t first = info.output_scanline;
    const std::int64_t count = jpeg_read_scanlines(&info, rows.data(), kRowsAtOnce);
    for (std::int64_t i = 0; i < count; ++i) {
      if (first + i >= plan.region.top && first + i < end) put_row(plan, rows[i], first + i);
    }
  }
  // libjpeg checks the end of the file only if the last row was read.
  if (info.output_scanline == info.output_height) jpeg_finish_decompress(&info);
}

using Step = void (*)(Decoder&, Plan&);

bool run(Step step, Decoder& decoder, Plan& plan) {
  if (setjmp(decoder.faults.jump) != 0) return false;
  step(decoder, plan);
  return true;
}

/// Leaves the decoder ready for the next file.
struct Abort {
  Decoder& decoder;
  ~Abort() { jpeg_abort_decompress(&decoder.info); }
};

std::int64_t shrink_of(ImageSize size, ImageSize wanted) {
  std::int64_t shrink = 1;
  while (shrink < 8 && size.width >= 2 * shrink * wanted.width && size.height >= 2 * shrink * wanted.height) {
    shrink *= 2;
  }
  return shrink;
}

/// Returns the pixels of the shrunk image that `region` touches.
Region shrunk(const Region& region, std::int64_t factor) {
  const std::int64_t left = region.left / factor;
  const std::int64_t top = region.top / factor;
  const std::int64_t right = (region.left + region.size.width + factor - 1) / factor;
  const std::int64_t bottom = (region.top + region.size.height + factor - 1) / factor;
  return {left, top, {right - left, bottom - top}};
}

Box place_of(const Region& region, const Region& in, std::int64_t shrink) {
  const auto factor = static_cast<float>(shrink);
  const float x = static_cast<float>(region.left) / factor - static_cast<float>(in.left);
  const float y = static_cast<float>(region.top) / factor - static_cast<float>(in.top);
  return {x, y, x + static_cast<float>(region.size.width) / factor,
          y + static_cast<float>(region.size.height) / factor};
}

Result<ImageSize> read_size(Decoder& decoder, Plan& plan) {
  if (!run(read_header, decoder, plan)) return decoder.failure();
  return checked_size(decoder.info.image_width, decoder.info.image_height, plan.bytes.size());
}

/// Every block of 8 x 8 pixels takes at least one bit of Huffman code. A file that is too small for these bits is
/// rejected before memory is allocated. Small images are exempt: decoding them shows where they end.
bool can_hold(std::string_view bytes, ImageSize size, bool arithmetic) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 20;  // pixels
  constexpr std::int64_t kMostPixelsAByte = 8 * 64;
  const std::int64_t pixels = size.width * size.height;
  return arithmetic || pixels <= kSmall || pixels / kMostPixelsAByte <= static_cast<std::int64_t>(bytes.size());
}

Result<ImagePart> decode(std::string_view bytes, ColorMode mode, const Region* region, ImageSize wanted) {
  Decoder& decoder = data::decoder();
  const Abort at_end{decoder};
  Plan plan{.bytes = bytes};
  forget_oddity();
  decoder.faults.warned = false;
  const Result<ImageSize> size = read_size(decoder, plan);
  if (!size) return Failure{size.error()};
  if (!can_hold(bytes, size.value(), decoder.info.arith_code != FALSE)) {
    return Failure{fmt::format("truncated JPEG: its header claims {} x {} pixels", size->width, size->height)};
  }
  const J_COLOR_SPACE colors = decoder.info.jpeg_color_space;
  if (colors == JCS_CMYK || colors == JCS_YCCK) return Failure{"a CMYK JPEG; only gray and RGB are supported"};
  const Region whole{0, 0, size.value()};
  const Region& asked = region == nullptr ? whole : *region;
  plan.shrink = region == nullptr ? 1 : shrink_of(asked.size, wanted);
  plan.region = shrunk(asked, plan.shrink);
  plan.out_channels = mode == ColorMode::kGray ? 1 : 3;
  plan.channels = plan.out_channels == 1 && colors == JCS_GRAYSCALE ? 1 : 3;
  ImagePart part{{plan.region.size, plan.out_channels, {}}, place_of(asked, plan.region, plan.shrink)};
  part.image.pixels.resize(static_cast<std::size_t>(plan.region.size.width * plan.region.size.height) *
                           static_cast<std::size_t>(plan.out_channels));
  plan.out = part.image.pixels.data();
  if (!run(start, decoder, plan)) return decoder.failure();
  decoder.rows.resize(std::max(decoder.rows.size(), std::size_t{kRowsAtOnce} * decoder.info.output_width *
                                                        static_cast<std::size_t>(plan.channels)));
  if (!run(read_rows, decoder, plan)) return decoder.failure();
  if (decoder.faults.warned) {
    set_oddity(Oddity::kWarning, fmt::format("{}, but its pixels are intact", decoder.faults.warning.data()));
  }
  return part;
}

}  // namespace

bool is_jpeg(std::string_view bytes) noexcept { return bytes.starts_with("\xff\xd8\xff"); }

Result<ImageSize> jpeg_size(std::string_view bytes) {
  Decoder& decoder = data::decoder();
  const Abort at_end{decoder};
  Plan plan{.bytes = bytes};
  return read_size(decoder, plan);
}

Result<Image> decode_jpeg(std::string_view bytes, ColorMode mode) {
  Result<ImagePart> whole = decode(bytes, mode, nullptr, {});
  if (!whole) return Failure{whole.error()};
  return std::move(std::move(whole).value().image);
}

Result<ImagePart> decode_jpeg_region(std::string_view bytes, ColorMode mode, const Region& region, ImageSize wanted) {
  return decode(bytes, mode, &region, wanted);
}

}  // namespace lockstep::data
