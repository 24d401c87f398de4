// SPDX-License-Identifier: Apache-2.0
// Writes the parts of a packed file, and parses them as untrusted input. No torch header. docs/design/data_sources.md
// defines the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/data/picture.h"

namespace lockstep::data {

inline constexpr std::string_view kPackedMagic{"\x89LSPACK\n", 8};
inline constexpr std::string_view kPackedEnd{"\nPACKEND", 8};
inline constexpr std::uint32_t kPackedVersion = 1;
inline constexpr std::uint64_t kPackedStart = 4096;  // bytes before the first sample: a page
inline constexpr std::uint64_t kPackedAlign = 64;    // bytes: a cache line
inline constexpr std::uint64_t kPackedEntryBytes = 48;
inline constexpr std::uint64_t kPackedFooterBytes = 64;
inline constexpr std::uint64_t kMaxMaskBytes = std::uint64_t{1} << 30;  // limit of the decoded masks of one sample

/// The place of a sample: its pixels at `offset`, its marks directly after them.
struct PackedEntry {
  std::uint64_t offset = 0;
  std::uint64_t pixel_bytes = 0;
  std::uint32_t marks_bytes = 0;
  std::uint8_t encoded = 0;   ///< 1 if the pixels are the bytes of a PNG or JPEG file
  std::uint8_t channels = 0;  ///< 0 if encoded
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint64_t hash = 0;  ///< XXH3-64 of pixels and marks
};

/// The checked index of a file. It views the file's bytes, which must outlive it.
struct PackedIndex {
  std::string_view entries;
  std::int64_t count = 0;
  std::vector<std::string> classes;

  [[nodiscard]] PackedEntry entry(std::int64_t index) const;
};

enum class PackedCheck { kHash, kLayout };  ///< kLayout does not verify hashes

[[nodiscard]] std::uint64_t packed_hash(std::string_view bytes) noexcept;

[[nodiscard]] std::string packed_header();
[[nodiscard]] std::string packed_entry(const PackedEntry& entry);
/// Encodes the class names. The index is the entries, followed by these bytes.
[[nodiscard]] std::string packed_classes(const std::vector<std::string>& classes);
/// Encodes the footer. `at` is the offset of the index in the file.
[[nodiscard]] std::string packed_footer(std::string_view index, std::uint64_t at, std::uint64_t count);

/// Parses the header, index and footer of a file, and checks that entries lie between header and index. A Failure names
/// the offset.
[[nodiscard]] Result<PackedIndex> parse_packed(std::string_view file, PackedCheck check = PackedCheck::kHash);

/// Encodes everything in an image except its pixels.
[[nodiscard]] std::string packed_marks(const AnnotatedImage& picture);
/// Decodes packed_marks(). `size` is the size of the image, which its masks must also have.
[[nodiscard]] Result<AnnotatedImage> parse_packed_marks(std::string_view bytes, ImageSize size);

}  // namespace lockstep::data
