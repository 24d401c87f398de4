// SPDX-License-Identifier: Apache-2.0
// One XML file of Pascal VOC, as untrusted input. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/data/picture.h"

namespace lockstep::data {

struct VocObject {
  std::string name;
  Box box;  ///< after conversion: counted from 0, and x2 and y2 are exclusive
  bool difficult = false;
};

struct VocPicture {
  ImageSize size;         ///< 0 x 0 if the file does not state it
  std::string file_name;  ///< <filename>, without the folders of another machine; may be empty
  std::vector<VocObject> objects;
};

[[nodiscard]] Result<VocPicture> parse_voc(std::string_view xml);

}  // namespace lockstep::data
