// SPDX-License-Identifier: Apache-2.0
#include "targets.h"

#include <string>

#include "launch/nodes/messages.h"
#include "lockstep/view/run_curves.h"
#include "lockstep/view/step_report.h"

namespace lockstep::fuzz {

void json_records(std::string_view bytes) {
  const std::string text(bytes);
  // A record that was read is written and read again.
  if (const auto event = launch::parse_event(text)) require(launch::parse_event(launch::to_text(*event)).has_value());
  if (const auto order = launch::parse_order(text)) require(launch::parse_order(launch::to_text(*order)).has_value());
  if (const auto figures = view::parse_rank_figures(text)) {
    require(view::parse_rank_figures(view::to_json(*figures)).has_value());
  }
  if (const auto report = view::parse_step_report(text)) (void)view::to_json(*report);
  view::RunCurves run{.name = "fuzz", .steps = {}, .epochs = {}, .metrics = {}, .epoch_of = {}};
  view::add_line(run, bytes);
  view::add_line(run, bytes);
}

}  // namespace lockstep::fuzz
