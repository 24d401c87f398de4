// SPDX-License-Identifier: Apache-2.0
// What libmicrohttpd has read, as a Request.
#pragma once

#include <optional>
#include <string>

#include "lockstep/http/server.h"

struct MHD_Connection;

namespace lockstep::http {

/// Returns the request; none where a header that decides who may ask comes twice.
[[nodiscard]] std::optional<Request> read_request(MHD_Connection* connection, const std::string& path,
                                                  const std::string& method);

/// Returns whether a body is announced.
[[nodiscard]] bool has_body(MHD_Connection* connection);

}  // namespace lockstep::http
