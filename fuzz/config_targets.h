// SPDX-License-Identifier: Apache-2.0
// The fuzzer's function for settings, which come inside checkpoints too.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

void yaml(std::string_view bytes);  ///< settings, bound to fields of every type, and written again

/// Any JSON: within the limits or refused, by the text's reader and by CBOR's.
void json_text(std::string_view bytes);

}  // namespace lockstep::fuzz
