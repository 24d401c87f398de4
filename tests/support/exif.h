// SPDX-License-Identifier: Apache-2.0
// JPEG files with an EXIF orientation, as cameras write them.
#pragma once

#include <string>

namespace lockstep::test {

/// Returns `jpeg` with an EXIF segment, whose only entry is the orientation, after its first two bytes.
inline std::string with_exif_orientation(const std::string& jpeg, int orientation, bool big_endian = false) {
  const auto number = [big_endian](unsigned value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * (big_endian ? bytes - 1 - i : i)) & 0xffU);
    return text;
  };
  const std::string tiff = std::string(big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) +  // the header
                           number(1, 2) + number(0x0112, 2) + number(3, 2) + number(1, 4) +        // one short number
                           number(static_cast<unsigned>(orientation), 2) + number(0, 2) + number(0, 4);
  const std::string segment = std::string("Exif\0\0", 6) + tiff;
  const auto size = static_cast<char>(segment.size() + 2);
  return jpeg.substr(0, 2) + "\xff\xe1" + std::string(1, '\0') + std::string(1, size) + segment + jpeg.substr(2);
}

}  // namespace lockstep::test
