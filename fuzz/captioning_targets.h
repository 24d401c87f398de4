// SPDX-License-Identifier: Apache-2.0
// The same as targets.h for what the captioning recipe reads.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

void npz(std::string_view bytes);  ///< features: the zip file, the array's header, its values
/// An array under the shape that it claims, in a zip file that is right but for that: without it no change would get
/// past the checksum. The first byte chooses stored or deflated; the others are the .npy.
void npy(std::string_view bytes);
void caption_text(std::string_view bytes);  ///< FILE#NUMBER<TAB>CAPTION a line
void caption_json(std::string_view bytes);  ///< COCO's and Karpathy's
void caption_ids(std::string_view bytes);   ///< one a line, or with paths
void vocabulary(std::string_view bytes);    ///< a word a line

}  // namespace lockstep::fuzz
