// SPDX-License-Identifier: Apache-2.0
#include "comm/network/wire.h"

#include <fmt/format.h>

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {

Wire parse_wire(std::string_view text) {
  std::vector<std::string> names;
  for (const Wire wire : {Wire::kAuto, Wire::kTls, Wire::kPlain, Wire::kUcx}) {
    if (text == wire_name(wire)) return wire;
    names.emplace_back(wire_name(wire));
  }
  throw UsageError(fmt::format("there is no wire '{}'{}: valid values are {}", text,
                               text::did_you_mean(std::string(text), names), text::join(names)));
}

const char* wire_name(Wire wire) {
  switch (wire) {
    case Wire::kTls:
      return "tls";
    case Wire::kPlain:
      return "plain";
    case Wire::kUcx:
      return "ucx";
    case Wire::kAuto:
      break;
  }
  return "auto";
}

const char* describe_wire(Wire wire) {
  switch (wire) {
    case Wire::kPlain:
      return "plain";
    case Wire::kUcx:
      return "over UCX, plain";
    case Wire::kAuto:
    case Wire::kTls:
      break;
  }
  return "encrypted (TLS 1.3)";
}

}  // namespace lockstep::comm
