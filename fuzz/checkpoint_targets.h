// SPDX-License-Identifier: Apache-2.0
// What the fuzzer calls for the files of checkpoints and weights. The tests call the same on a few seeds.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

void zip(std::string_view bytes);          ///< its members, as if their checksums were right
void pickle(std::string_view bytes);       ///< what torch.save's pickle holds
void safetensors(std::string_view bytes);  ///< a header and its tensors' places
void manifest(std::string_view bytes);     ///< manifest.json without its seal, which is added

}  // namespace lockstep::fuzz
