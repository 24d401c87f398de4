// SPDX-License-Identifier: Apache-2.0
// Writes entries of a state as text, in the same form for digests, descriptions and differences.
#pragma once

#include <string>

#include "lockstep/tensor/state_dict.h"

namespace lockstep::checkpoint {

/// Returns "float32 [64, 1, 3, 3]".
[[nodiscard]] std::string type_and_shape(const at::Tensor& tensor);

/// Returns type_and_shape() of a tensor, or the canonical JSON of a plain value. The entry may come from another
/// program's file.
[[nodiscard]] std::string entry_text(const StateValue& value);

}  // namespace lockstep::checkpoint
