// SPDX-License-Identifier: Apache-2.0
// Measures the link between two hosts of a job for `lockstep doctor`, over the ranks' own wire.
#pragma once

#include <chrono>
#include <functional>

#include "lockstep/view/link_report.h"
#include "lockstep/wire/circle.h"

namespace lockstep::launch {

/// Takes about half a second; the other host runs serve_link(). Throws: IoError if the other host does not connect
/// within `patience`, or drops the connection.
[[nodiscard]] view::LinkSpeed measure_link(wire::Circle& circle, int peer, std::chrono::milliseconds patience);

/// Responds until the other host closes the connection, or sends nothing for 30 s. Waits for the connection until
/// `has_given_up` returns true.
void serve_link(wire::Circle& circle, int peer, const std::function<bool()>& has_given_up) noexcept;

}  // namespace lockstep::launch
