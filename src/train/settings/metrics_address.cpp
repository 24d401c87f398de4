// SPDX-License-Identifier: Apache-2.0
#include "train/settings/metrics_address.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::train {

ServerAddress parse_address(const std::string& text) {
  const auto fail = [&] {
    return UsageError(
        fmt::format("metrics_address: '{}' is neither PORT nor HOST:PORT", text),
        fmt::format("use a port on this machine, as in {}, or HOST:PORT", option_words("metrics", "9100")));
  };
  ServerAddress address;
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos) address.host = text.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    throw fail();
  }
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (address.host.empty() || port.empty() || port.find_first_not_of("0123456789") != std::string::npos) throw fail();
  address.port = static_cast<int>(whole_number("metrics_address", port, {.least = 0, .most = 65'535}));
  return address;
}

}  // namespace lockstep::train
