// SPDX-License-Identifier: Apache-2.0
// The format of an image and its label.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::captcha {

struct Labels {
  std::string charset = "0-9A-Z";  ///< ranges and single characters; their order is the class order
  std::int64_t length = 4;         ///< characters per image
  std::int64_t width = 160;        ///< pixels
  std::int64_t height = 60;        ///< pixels
  std::string label_end = "_";     ///< a file's label is its name up to this string, or up to its extension
};

}  // namespace lockstep::captcha
