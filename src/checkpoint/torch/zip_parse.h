// SPDX-License-Identifier: Apache-2.0
// Reads the members of a zip file (.pth, .pt, .npz) from untrusted bytes. The central directory and the members' own
// headers must agree, members must not overlap, and a member is unpacked only if its size is bounded. It does not use
// libtorch. docs/formats/torch_file.md has the grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::checkpoint {

/// One file inside the zip file.
struct ZipMember {
  std::string name;          ///< relative, without ".."
  std::uint64_t header = 0;  ///< offset of its local header
  std::uint64_t offset = 0;  ///< offset of its bytes in the file
  std::uint64_t stored = 0;  ///< number of its bytes in the file
  std::uint64_t bytes = 0;   ///< number of bytes after unpacking
  std::uint32_t crc = 0;     ///< CRC-32 of the unpacked bytes
  bool deflated = false;     ///< if false, the bytes are not compressed, and stored == bytes
};

/// Returns true if `file` begins like a zip file.
[[nodiscard]] bool is_zip(std::string_view file);

/// The largest size that the end of a zip file can have: that with the longest comment.
inline constexpr std::size_t kZipMostEnd = 22 + 65'535;

/// Returns true if `end`, the last bytes of a file, is the end of a zip file.
[[nodiscard]] bool has_zip_end(std::string_view end);

/// Returns all members, ordered by offset. On success the members are inside the file and do not overlap. CRCs are not
/// checked.
[[nodiscard]] Result<std::vector<ZipMember>> parse_zip(std::string_view file);

/// Returns the member's bytes as they are in the file.
[[nodiscard]] std::string_view stored_bytes(std::string_view file, const ZipMember& member);

/// Returns what is wrong with a member's bytes ("its bytes have CRC-32 ..., but the zip file says ..."); "" if they are
/// intact. It needs little memory, even for a large member.
[[nodiscard]] std::string check_member(std::string_view file, const ZipMember& member);

/// Unpacks a deflated member of at most `limit` bytes; it does not check the CRC.
[[nodiscard]] Result<std::string> inflate_member(std::string_view file, const ZipMember& member, std::uint64_t limit);

/// Returns the CRC-32 that zip files use, continued from `before`.
[[nodiscard]] std::uint32_t zip_crc(std::string_view bytes, std::uint32_t before = 0);

}  // namespace lockstep::checkpoint
