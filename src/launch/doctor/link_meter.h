// SPDX-License-Identifier: Apache-2.0
// The messages of `lockstep doctor` between two hosts of a job that measure their link, over the ranks' own wire.
#pragma once

#include <chrono>
#include <functional>

#include "lockstep/view/link_report.h"
#include "lockstep/wire/circle.h"

namespace lockstep::launch {

/// Measures for some half second; the other side is in serve_link(). Throws: IoError if it does not connect within
/// `patience`, or breaks off.
[[nodiscard]] view::LinkSpeed measure_link(wire::Circle& circle, int peer, std::chrono::milliseconds patience);

/// Answers until the other side closes the connection, or sends nothing for 30 s; before it has connected, until
/// `has_given_up` is true.
void serve_link(wire::Circle& circle, int peer, const std::function<bool()>& has_given_up) noexcept;

}  // namespace lockstep::launch
