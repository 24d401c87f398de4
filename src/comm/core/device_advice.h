// SPDX-License-Identifier: Apache-2.0
// Causes and remedies of NCCL's errors, in a table that is matched against the words of NCCL's log. It needs neither
// NCCL nor CUDA, so that `lockstep` can use it on a log from any machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm {

struct NcclAdvice {
  std::string cause;   ///< the cause, in one sentence
  std::string remedy;  ///< the setting or part to change
};

/// Returns the advice of the first row whose words occur in `log`, a part of NCCL's output or error text; none if no
/// row matches. It is a pure function.
[[nodiscard]] std::optional<NcclAdvice> nccl_advice(std::string_view log);

/// Returns the advice for an operation that never ended although every rank had called it. It is a pure function.
[[nodiscard]] NcclAdvice nccl_hang_advice();

}  // namespace lockstep::comm
