// SPDX-License-Identifier: Apache-2.0
// The same as targets.h for what the captioning recipe reads.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

void npz(std::string_view bytes);  ///< features: the zip file, the array's header, its values
/// An array under the shape that it claims, in a zip file that is right but for that: without it no change would get
/// past the checksum. The first byte chooses stored or deflated; the others are the .npy.
void npy(std::string_view bytes);

}  // namespace lockstep::fuzz
