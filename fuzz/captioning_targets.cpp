// SPDX-License-Identifier: Apache-2.0
#include "targets.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "captioning/data/caption_files.h"
#include "captioning/data/npz.h"
#include "captioning/data/vocabulary.h"
#include "captioning/metrics/tokens.h"
#include "lockstep/base/error.h"

namespace lockstep::fuzz {
namespace {

std::string low_bytes_first(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

std::string raw_deflate(std::string_view bytes) {
  z_stream stream{};
  require(deflateInit2(&stream, 1, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// A zip file with one member, feat.npy.
std::string zip_of(std::string_view content, bool deflated) {
  const std::string packed = deflated ? raw_deflate(content) : std::string(content);
  const std::string name = "feat.npy";
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  const std::string fields = low_bytes_first(0, 2) + low_bytes_first(deflated ? 8 : 0, 2) + low_bytes_first(0, 4) +
                             low_bytes_first(crc, 4) + low_bytes_first(packed.size(), 4) +
                             low_bytes_first(content.size(), 4) + low_bytes_first(name.size(), 2);
  const std::string local =
      low_bytes_first(0x04034b50, 4) + low_bytes_first(20, 2) + fields + low_bytes_first(0, 2) + name + packed;
  const std::string entry =
      low_bytes_first(0x02014b50, 4) + low_bytes_first(20, 4) + fields + std::string(16, '\0') + name;
  return local + entry + low_bytes_first(0x06054b50, 4) + low_bytes_first(0, 4) + low_bytes_first(0x00010001, 4) +
         low_bytes_first(entry.size(), 4) + low_bytes_first(local.size(), 4) + low_bytes_first(0, 2);
}

void require_whole(const captioning::CaptionTable& table) {
  std::unordered_set<std::string> ids;
  for (const captioning::CaptionedImage& image : table.images) {
    require(ids.insert(image.id).second && !image.file.empty() && !image.captions.empty());
    for (const std::string& caption : image.captions) require(!captioning::words_of(caption).empty());
  }
}

/// A bad file must lead to a DataError whose message does not grow with the file. Any other error ends the program.
template <class Read>
void read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const DataError& refused) {
    require(refused.message().size() < 1000 && captioning::is_utf8(refused.message()));
  }
}

}  // namespace

void npz(std::string_view bytes) {
  const auto all = captioning::parse_features(bytes);
  const auto two = captioning::parse_features(bytes, 2);
  if (!all) return;
  require(two.ok() && two->width == all->width && two->rows == std::min<std::int64_t>(2, all->rows));
  require(all->rows > 0 && all->width > 0);
  require(static_cast<std::int64_t>(all->values.size()) == all->rows * all->width);
  require(std::ranges::all_of(all->values, [](float value) { return std::isfinite(value); }));
  require(std::equal(two->values.begin(), two->values.end(), all->values.begin()));
}

void npy(std::string_view bytes) {
  if (!bytes.empty()) npz(zip_of(bytes.substr(1), (bytes.front() & 1) != 0));
}

void caption_text(std::string_view bytes) {
  read_or_refuse([&] {
    const captioning::CaptionTable table = captioning::parse_caption_text(bytes, "captions.txt");
    require(!table.images.empty());
    require_whole(table);
  });
}

void caption_json(std::string_view bytes) {
  for (const char* split : {"", "train"}) {
    read_or_refuse([&] { require_whole(captioning::parse_caption_json(bytes, "captions.json", split)); });
  }
}

void caption_ids(std::string_view bytes) {
  read_or_refuse([&] {
    const captioning::IdList list = captioning::parse_ids(bytes, "ids");
    require(!list.ids.empty() && (list.files.empty() || list.files.size() == list.ids.size()));
    require(std::unordered_set<std::string>(list.ids.begin(), list.ids.end()).size() == list.ids.size());
  });
}

void vocabulary(std::string_view bytes) {
  read_or_refuse([&] {
    const auto read = captioning::Vocabulary::from_text(bytes, "words.txt");
    const std::string text = read.to_text();
    // If the text starts with a byte order mark, reading it again would remove that mark.
    require(text.starts_with("\xef\xbb\xbf") || captioning::Vocabulary::from_text(text, "").difference(read).empty());
  });
}

}  // namespace lockstep::fuzz
