// SPDX-License-Identifier: Apache-2.0
// What a resumed run keeps of log.jsonl. Pure: no disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::train {

struct KeptLog {
  std::string text;
  std::int64_t damaged = 0;  ///< number of lines that are not a JSON object
};

/// Returns `log` without the events "step", "epoch", "report" and "resume" whose "step" is greater than `step`, and
/// without lines that are not a JSON object. Every line of the result ends with a newline.
[[nodiscard]] KeptLog keep_log_up_to(std::string_view log, std::int64_t step);

}  // namespace lockstep::train
