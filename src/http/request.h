// SPDX-License-Identifier: Apache-2.0
// Converts a request of libmicrohttpd into a Request.
#pragma once

#include <optional>
#include <string>

#include "lockstep/http/server.h"

struct MHD_Connection;

namespace lockstep::http {

/// Returns the request; none if a header that controls access occurs twice.
[[nodiscard]] std::optional<Request> read_request(MHD_Connection* connection, const std::string& path,
                                                  const std::string& method);

/// Returns true if the request announces a body.
[[nodiscard]] bool has_body(MHD_Connection* connection);

}  // namespace lockstep::http
