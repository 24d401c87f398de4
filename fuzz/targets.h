// SPDX-License-Identifier: Apache-2.0
// What the fuzzer calls: one function per kind of foreign bytes. The tests call the same on a few seeds.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

/// The sum of all bytes that were read: so that no compiler leaves the reading out.
extern unsigned bytes_read;

void images(std::string_view bytes);  ///< PNG and JPEG: size, whole, and a part
/// Pixels of a PNG that is right but for them: without it no change would get past the checksums. The first 8 bytes
/// choose size, color type, depth and interlacing; the others are the rows before compression.
void png_rows(std::string_view bytes);
void tar(std::string_view bytes);  ///< a shard, and what lies in its samples
void idx(std::string_view bytes);
void voc(std::string_view bytes);
void coco(std::string_view bytes);    ///< with masks drawn
void lists(std::string_view bytes);   ///< CSV and JSON
void packed(std::string_view bytes);  ///< as if its hashes were right

}  // namespace lockstep::fuzz
