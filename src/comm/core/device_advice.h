// SPDX-License-Identifier: Apache-2.0
// Causes and remedies of NCCL's errors: a table over the words of its log. No NCCL and no CUDA in here, so that
// `lockstep` can use it on a log from anywhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm {

struct NcclAdvice {
  std::string cause;   ///< one sentence
  std::string remedy;  ///< the setting or part to change
};

/// Returns the advice of the first row of the table whose words occur in `log`, any part of NCCL's output or of its
/// errors. Returns none if no row matches. It is a pure function.
[[nodiscard]] std::optional<NcclAdvice> nccl_advice(std::string_view log);

/// Returns the advice for an operation that never ended although every rank had called it. It is a pure function.
[[nodiscard]] NcclAdvice nccl_hang_advice();

}  // namespace lockstep::comm
