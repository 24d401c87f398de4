// SPDX-License-Identifier: Apache-2.0
// TFRecord, the frame around each record of an event file: length, payload, and a checksum of each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::view {

/// CRC-32C (Castagnoli) of `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// Appends a whole record to `out`.
void append_record(std::string& out, std::string_view payload);

}  // namespace lockstep::view
