// SPDX-License-Identifier: Apache-2.0
// The JSON of a safetensors header, read event by event: nesting is bounded by the grammar and a key that stands twice
// is seen, which a document tree would hide. Says nothing of whether the numbers make sense: safetensors_header.cpp
// does.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::checkpoint {

/// A tensor's entry as it stands in the JSON.
struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::array<std::uint64_t, 2> offsets{};
};

struct RawHeader {
  std::vector<RawTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads the JSON text of a header, with the spaces that may follow it.
[[nodiscard]] Result<RawHeader> read_header_json(std::string_view json);

}  // namespace lockstep::checkpoint
