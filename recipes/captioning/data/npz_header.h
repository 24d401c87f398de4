// SPDX-License-Identifier: Apache-2.0
// The header of a .npy file: a Python dictionary as text, of which only what numpy writes is understood. Nothing is
// evaluated. No torch header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::captioning {

struct NpyHeader {
  std::string descr;  ///< the type, such as "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< none negative
  std::size_t size = 0;             ///< bytes before the values
};

/// Formats 1.0, 2.0 and 3.0. Fails with the reason, which names the field.
/// Source: numpy.lib.format's documentation.
[[nodiscard]] Result<NpyHeader> parse_npy_header(std::string_view bytes);

}  // namespace lockstep::captioning
