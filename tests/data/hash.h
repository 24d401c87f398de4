// SPDX-License-Identifier: Apache-2.0
// FNV-1a, as in the golden scripts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace lockstep::test {

inline std::string fnv1a(const void* data, std::size_t size) {
  std::uint64_t value = 0xcbf29ce484222325U;
  for (std::size_t i = 0; i < size; ++i) value = (value ^ static_cast<const std::uint8_t*>(data)[i]) * 0x100000001b3U;
  return fmt::format("{:016x}", value);
}

}  // namespace lockstep::test
