// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/finite_check.h"

#include "checkpoint/formats/finite_tensors.h"

namespace lockstep::checkpoint {

void require_finite(const Content& content) {
  if (!content.finite.required) return;
  NamedStates states;
  for (const auto& [name, part] : content.parts) states.emplace_back(name, &part.entries);
  const std::string values = not_finite_in(states, FiniteRule(content.finite.learnt));
  if (!values.empty()) throw NotFiniteError(values);
}

}  // namespace lockstep::checkpoint
