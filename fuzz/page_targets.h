// SPDX-License-Identifier: Apache-2.0
// The same as targets.h for what a stranger sends to the live page and to /metrics.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

/// Bytes on a connection to a real server on loopback: request lines, headers, queries. libmicrohttpd itself is not
/// instrumented; what is made of its words is.
void http_request(std::string_view bytes);
/// Lines in turn as Host, Origin, Authorization and path, as the page reads them.
void page_words(std::string_view bytes);

}  // namespace lockstep::fuzz
