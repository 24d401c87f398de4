// SPDX-License-Identifier: Apache-2.0
// Stand-ins for functions whose source includes libtorch.
#include "lockstep/data/sources/image_files.h"

namespace lockstep {

// For src/data/sources/files/image_files.cpp: without extensions, no image of another format is mentioned.
const std::vector<std::string>& other_image_extensions() {
  static const std::vector<std::string> kNone;
  return kNone;
}

}  // namespace lockstep
