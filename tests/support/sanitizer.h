// SPDX-License-Identifier: Apache-2.0
// Whether a test runs under the address sanitizer, which has malloc and the handlers of signals for itself.
#pragma once

namespace lockstep::test {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace lockstep::test
