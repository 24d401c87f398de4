// SPDX-License-Identifier: Apache-2.0
// The message of an error that a test expects.
#pragma once

#include <string>

namespace lockstep::test {

/// Returns the message of the Fault that `call` throws; "not thrown" if it does not throw. Other errors propagate.
template <class Fault, class F>
[[nodiscard]] std::string fault_of(F&& call) {
  try {
    call();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "not thrown";
}

}  // namespace lockstep::test
