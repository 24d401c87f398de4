// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace lockstep::comm {

/// Another rank sends a message of another length than this one waits for: the two called different things. The
/// messages before it have come.
class WrongLength : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lockstep::comm
