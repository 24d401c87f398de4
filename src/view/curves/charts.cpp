// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/view/chart.h"

namespace lockstep::view {
namespace {

using Part = std::map<std::string, Curve> RunCurves::*;

const Curve* curve_of(const RunCurves& run, Part part, const std::string& name) {
  const auto found = (run.*part).find(name);
  return found == (run.*part).end() || found->second.empty() ? nullptr : &found->second;
}

/// Returns the name of a run; runs with the same name in different folders get a number.
std::string series_name(const std::vector<RunCurves>& runs, std::size_t index) {
  const auto before = std::count_if(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(index),
                                    [&](const RunCurves& run) { return run.name == runs[index].name; });
  return before == 0 ? runs[index].name : runs[index].name + " (" + std::to_string(before + 1) + ")";
}

struct Figure {
  std::string title;
  std::string unit;
  std::string name;
  std::vector<Part> parts;  ///< alternatives: the first part that a run has is drawn
  double weight = 0;
};

/// Returns the metrics, the task's main metric first.
std::vector<std::string> metrics_of(const std::vector<RunCurves>& runs) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const RunCurves& run : runs) {
    for (const std::string& name : run.metric_names) add(name);
    for (const auto& [name, curve] : run.metrics) add(name);
  }
  return names;
}

void add_chart(std::vector<Chart>& charts, const std::vector<RunCurves>& runs, const Figure& figure) {
  Chart chart{.title = figure.title, .unit = figure.unit, .series = {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const Part part : figure.parts) {
      const Curve* curve = curve_of(runs[i], part, figure.name);
      if (curve == nullptr) continue;
      chart.series.push_back({series_name(runs, i), *curve, smoothed(*curve, figure.weight)});
      break;
    }
  }
  if (!chart.series.empty()) charts.push_back(std::move(chart));
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<RunCurves>& runs, double weight) {
  const std::vector<Part> both = {&RunCurves::steps, &RunCurves::epochs};
  std::vector<Chart> charts;
  add_chart(charts, runs, {.title = "loss", .unit = "", .name = "loss", .parts = both, .weight = weight});
  for (const std::string& name : metrics_of(runs)) {
    add_chart(charts, runs,
              {.title = name == "loss" ? "test loss" : name, .unit = "", .name = name, .parts = {&RunCurves::metrics}});
  }
  add_chart(charts, runs, {.title = "learning rate", .unit = "", .name = "lr", .parts = both});
  add_chart(charts, runs,
            {.title = "speed", .unit = "images/s", .name = "images_per_s", .parts = both, .weight = weight});
  if (charts.empty()) {
    throw DataError("there is nothing to draw: no step and no epoch has been logged yet",
                    "wait for the first logged step (log_every_steps), or for the end of the first epoch");
  }
  return charts;
}

}  // namespace lockstep::view
