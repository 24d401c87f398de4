// SPDX-License-Identifier: Apache-2.0
// What an error of NCCL means and what to do: a table over the words of its log. No NCCL and no CUDA in here, so that
// `lockstep` can use it on a log from anywhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm {

struct NcclAdvice {
  std::string cause;   ///< one sentence
  std::string remedy;  ///< what to set or to change
};

/// Returns the advice of the first row of the table whose words occur in `log`, any part of what NCCL printed or
/// returned.
/// Returns none where no row matches. It is a pure function.
[[nodiscard]] std::optional<NcclAdvice> nccl_advice(std::string_view log);

/// Returns the advice for an operation that never ended although every rank had called it. It is a pure function.
[[nodiscard]] NcclAdvice nccl_hang_advice();

}  // namespace lockstep::comm
