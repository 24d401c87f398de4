// SPDX-License-Identifier: Apache-2.0
// The words of an error that a test expects.
#pragma once

#include <string>

namespace lockstep::test {

/// The words of the Fault that `call` throws; "not thrown" if it throws nothing. Other errors pass through.
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
