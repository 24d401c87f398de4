// SPDX-License-Identifier: Apache-2.0
// The fuzzer's function for records of JSON that programs of a job hand to each other, and leave in a run folder.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

void json_records(std::string_view bytes);  ///< messages between nodes, lines of log.jsonl, figures of ranks

}  // namespace lockstep::fuzz
