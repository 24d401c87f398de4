// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "lockstep/view/profile.h"
#include "view/profile/call_order.h"

namespace lockstep::view {

std::vector<LayerRow> layer_table(const Profile& profile) {
  std::vector<LayerRow> rows;
  std::map<std::string, std::size_t> places;
  const ProfiledCall* outer = nullptr;  // the call with a layer that may enclose later calls
  const auto wanted = [&](const ProfiledCall& call) { return is_operator(call) && runs_steps(profile, call); };
  for (const ProfiledCall* call : calls_in_order(profile, true, wanted)) {
    const bool is_inside = outer != nullptr && outer->thread == call->thread && call->begin_ns < outer->end_ns;
    if (!is_inside) outer = call->layer.empty() ? nullptr : call;
    if (outer == nullptr) continue;
    const auto [place, is_new] = places.try_emplace(outer->layer, rows.size());
    if (is_new) rows.push_back({.name = outer->layer});
    LayerRow& row = rows[place->second];
    row.flops += call->flops;
    if (is_inside) continue;
    const bool is_backward = call->kind == CallKind::kBackwardNode;
    (is_backward ? row.backward_ns : row.forward_ns) += call->end_ns - call->begin_ns;
  }
  return rows;
}

}  // namespace lockstep::view
