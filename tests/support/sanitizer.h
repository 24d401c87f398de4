// SPDX-License-Identifier: Apache-2.0
// True if the tests run under a sanitizer, which replaces malloc and the signal handlers.
#pragma once

namespace lockstep::test {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline constexpr bool kAnySanitizer = kAddressSanitizer || kThreadSanitizer;

}  // namespace lockstep::test
