// SPDX-License-Identifier: Apache-2.0
// The optimizers' groups and rules from their options.
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
[[nodiscard]] Setup setup_of(const AdamWOptions& options);
[[nodiscard]] Setup setup_of(const AdamOptions& options);
[[nodiscard]] Setup setup_of(const SGDOptions& options);
[[nodiscard]] Setup setup_of(const RMSpropOptions& options);
[[nodiscard]] Setup setup_of(const AdagradOptions& options);
[[nodiscard]] Setup setup_of(const LAMBOptions& options);
[[nodiscard]] Setup setup_of(const LARSOptions& options);
[[nodiscard]] Setup setup_of(const LionOptions& options);

}  // namespace lockstep::optim
