// SPDX-License-Identifier: Apache-2.0
// The members of a zip file, read from foreign bytes: .pth, .pt and .npz files are such. The central directory and the
// members' own headers have to agree, no two members share a byte, and nothing is unpacked that was not bounded first.
// No torch here. The grammar is docs/formats/torch_file.md.
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
  std::uint64_t header = 0;  ///< offset of its own header
  std::uint64_t offset = 0;  ///< of its bytes as they lie in the file
  std::uint64_t stored = 0;  ///< how many those are
  std::uint64_t bytes = 0;   ///< unpacked
  std::uint32_t crc = 0;     ///< CRC-32 of the unpacked bytes
  bool deflated = false;     ///< else they lie there as they are, and stored == bytes
};

/// Whether `file` begins as a zip file does.
[[nodiscard]] bool is_zip(std::string_view file);

/// All members, by offset. On success each lies inside the file and none overlaps another. Their CRCs are not looked
/// at.
[[nodiscard]] Result<std::vector<ZipMember>> parse_zip(std::string_view file);

/// The member's bytes as they lie in the file.
[[nodiscard]] std::string_view stored_bytes(std::string_view file, const ZipMember& member);

/// What is wrong with a member's bytes ("its CRC-32 is 0x..., the zip file says 0x..."); "" where nothing is. Needs
/// little memory, however large the member is unpacked.
[[nodiscard]] std::string check_member(std::string_view file, const ZipMember& member);

/// A deflated member unpacked, of at most `limit` bytes; its CRC is not looked at.
[[nodiscard]] Result<std::string> inflate_member(std::string_view file, const ZipMember& member, std::uint64_t limit);

/// CRC-32 as zip files have it, going on from `before`.
[[nodiscard]] std::uint32_t zip_crc(std::string_view bytes, std::uint32_t before = 0);

}  // namespace lockstep::checkpoint
