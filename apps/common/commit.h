// SPDX-License-Identifier: Apache-2.0
// The commit that a program was built from: cmake/LockstepCommit.cmake writes its value at each build.
#pragma once

namespace lockstep::cli {

/// Twelve digits, and "-dirty" if files differed from the commit; empty if the commit was unknown at build time.
extern const char* const kCommit;

}  // namespace lockstep::cli
