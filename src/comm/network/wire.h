// SPDX-License-Identifier: Apache-2.0
// The names of the wires, for --wire and LOCKSTEP_WIRE.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/comm/wire.h"

namespace lockstep::comm {

/// Parses "auto", "tls", "plain" or "ucx". Throws: UsageError naming the valid words.
[[nodiscard]] Wire parse_wire(std::string_view text);

/// Returns "tls"; "auto" for kAuto.
[[nodiscard]] const char* wire_name(Wire wire);

/// Returns a description of the wire for the banner: "encrypted (TLS 1.3)".
[[nodiscard]] const char* describe_wire(Wire wire);

}  // namespace lockstep::comm
