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

/// The advice of the first row of the table whose words stand in `log`, any part of what NCCL printed or returned.
/// None where no row fits. Pure function.
[[nodiscard]] std::optional<NcclAdvice> nccl_advice(std::string_view log);

/// For an operation that never ended although every rank had called it. Pure function.
[[nodiscard]] NcclAdvice nccl_hang_advice();

}  // namespace lockstep::comm
