// SPDX-License-Identifier: Apache-2.0
// The bytes of digests.bin (docs/formats/digests.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/view/digest_chain.h"

namespace lockstep::view {

inline constexpr std::string_view kDigestMagic = "lockdgst";
inline constexpr std::uint32_t kDigestVersion = 1;
inline constexpr std::size_t kDigestBytes = 32;  ///< size of the header and of each record

[[nodiscard]] std::string digest_begin_bytes(const DigestBegin& begin);
[[nodiscard]] std::string digest_record_bytes(const DigestRecord& record);

}  // namespace lockstep::view
