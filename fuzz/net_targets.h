// SPDX-License-Identifier: Apache-2.0
// The same as targets.h for what comes over the wire, from a rendezvous file, and for what a person is shown of it.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

void store_frame(std::string_view bytes);   ///< a request's body, as the store's server reads it
void address_file(std::string_view bytes);  ///< of --dist_url file://
void shown_words(std::string_view bytes);   ///< escape characters and URLs; what is left must steer nothing

}  // namespace lockstep::fuzz
