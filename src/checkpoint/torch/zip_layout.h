// SPDX-License-Identifier: Apache-2.0
// Constants of the zip format, shared by the reader and the writer.
// Source: PKWARE, APPNOTE.TXT, .ZIP File Format Specification 6.3.
#pragma once

#include <cstdint>

namespace lockstep::checkpoint {

inline constexpr std::uint64_t kZipLocal = 0x04034B50;    // "PK\3\4": a member's own header
inline constexpr std::uint64_t kZipEntry = 0x02014B50;    // a member's entry in the directory
inline constexpr std::uint64_t kZipEnd = 0x06054B50;      // the end record
inline constexpr std::uint64_t kZipEnd64 = 0x06064B50;    // the end record of large files
inline constexpr std::uint64_t kZipLocator = 0x07064B50;  // the locator of the record kZipEnd64

inline constexpr std::uint64_t kZipLocalBytes = 30;
inline constexpr std::uint64_t kZipEntryBytes = 46;
inline constexpr std::uint64_t kZipEndBytes = 22;
inline constexpr std::uint64_t kZipEnd64Bytes = 56;
inline constexpr std::uint64_t kZipLocatorBytes = 20;
inline constexpr std::uint64_t kZipMaxComment = 0xFFFF;

inline constexpr std::uint64_t kZipFull16 = 0xFFFF;      // "see the 64-bit record"
inline constexpr std::uint64_t kZipFull32 = 0xFFFFFFFF;  // "see the 64-bit field"
inline constexpr std::uint64_t kZipExtra64 = 1;          // the extra field for 64-bit numbers

inline constexpr std::uint64_t kZipStored = 0;
inline constexpr std::uint64_t kZipDeflated = 8;
inline constexpr std::uint64_t kZipEncrypted = 1U | (1U << 6U) | (1U << 13U);
inline constexpr std::uint64_t kZipSizesFollow = 1U
                                                 << 3U;  // the sizes come after the member's bytes, not in its header
inline constexpr std::uint64_t kZipUtf8Names = 1U << 11U;

inline constexpr std::uint64_t kDeflateMostRatio = 1032;  // 258 bytes take at least two bits

}  // namespace lockstep::checkpoint
