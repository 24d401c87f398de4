// SPDX-License-Identifier: Apache-2.0
// Makes the optimizers' groups and rules from their options.
#pragma once

#include "optim/rule.h"

namespace lockstep {
struct AdamWOptions;
struct AdamOptions;
struct SGDOptions;
struct RMSpropOptions;
struct AdagradOptions;
struct LAMBOptions;
struct LARSOptions;
struct LionOptions;
}  // namespace lockstep

namespace lockstep::optim {

/// Throws: UsageError for an option out of range.
[[nodiscard]] Setup setup_of(AdamWOptions options);
[[nodiscard]] Setup setup_of(AdamOptions options);
[[nodiscard]] Setup setup_of(SGDOptions options);
[[nodiscard]] Setup setup_of(RMSpropOptions options);
[[nodiscard]] Setup setup_of(AdagradOptions options);
[[nodiscard]] Setup setup_of(LAMBOptions options);
[[nodiscard]] Setup setup_of(LARSOptions options);
[[nodiscard]] Setup setup_of(LionOptions options);

}  // namespace lockstep::optim
