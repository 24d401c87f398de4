// SPDX-License-Identifier: Apache-2.0
// The same as targets.h for a flight ring, which lies in a run folder that somebody else may have made.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

void ring(std::string_view bytes);  ///< numbers at places of a ring that is right but for them, and what is said of it

}  // namespace lockstep::fuzz
