// SPDX-License-Identifier: Apache-2.0
// Converts libtorch's scalar types to the element types of a torch file.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "checkpoint/formats/element_type.h"

namespace lockstep::checkpoint {

[[nodiscard]] at::ScalarType scalar_type_of(ElementType type);

/// Returns the element type; none for quantized types, which Lockstep's torch files do not hold.
[[nodiscard]] std::optional<ElementType> element_type_of(at::ScalarType type);

}  // namespace lockstep::checkpoint
