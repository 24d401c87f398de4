// SPDX-License-Identifier: Apache-2.0
#include "dashboard/run_log.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::dashboard {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostAtOnce = 8 << 20;
constexpr std::size_t kMostEvents = 400;

// Not every value in an epoch's line is a curve.
bool is_curve(const std::string& name) { return name != "seconds"; }

/// The parts of a detector's loss, "losses.NAME", come last, because there are dozens of them.
std::size_t rank_of(const std::string& name) {
  constexpr std::array<std::string_view, 4> kFirst = {"loss", "epoch.loss", "images_per_s", "lr"};
  if (name.starts_with("losses.")) return kFirst.size() + 2;
  if (name.starts_with("metric.")) return 1;
  const auto place = static_cast<std::size_t>(std::ranges::find(kFirst, name) - kFirst.begin());
  return place == 0 ? 0 : place + 1;  // metrics come after the loss
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& folder) : reader_(folder / view::kRunLog) {}

bool RunLog::update() {
  const auto restart = [this] {
    curves_ = {};
    clock_.clear();
    events_.clear();
    report_ = nullptr;
    evaluation_ = nullptr;
    proved_ = nullptr;
    step_ = 0;
  };
  const auto progress = reader_.read(kMostAtOnce, restart, [this](std::string_view line) { add(line); });
  return progress.restarted || progress.read > 0;
}

void RunLog::add(std::string_view text) {
  auto line = view::add_line(curves_, text);
  if (!line || line->event.empty()) return;
  step_ = line->step.value_or(step_);
  if (line->event == "step") {
    const auto proved = line->json.find("proved");
    proved_ = proved != line->json.end() && proved->is_number_integer() ? *proved : Json();
    return;
  }
  if (line->event == "report") {
    report_ = std::move(line->json["report"]);
    return;
  }
  if (line->event == "epoch") add_epoch(line->json);
  events_.push_back(std::move(line->json));
  if (events_.size() > kMostEvents) events_.pop_front();
}

void RunLog::add_epoch(const Json& epoch) {
  if (epoch.contains("metrics") && epoch["metrics"].is_object()) {
    evaluation_ = {{"step", step_}, {"metrics", Json::array()}};
    for (const std::string& name : curves_.metric_names) {
      const auto value = epoch["metrics"].find(name);
      if (value != epoch["metrics"].end()) evaluation_["metrics"].push_back({name, *value});
    }
  }
  if (!epoch.contains("seconds") || !epoch["seconds"].is_number() || !epoch.contains("step")) return;
  while (!clock_.empty() && clock_.back().step >= step_) clock_.pop_back();
  clock_.push_back({step_, (clock_.empty() ? 0 : clock_.back().value) + epoch["seconds"].get<double>()});
}

Json RunLog::progress() const {
  std::size_t points = 0;
  for (const auto& [name, curve] : curves_.steps) points += curve.size();
  return {{"read", reader_.at()},
          {"size", reader_.size()},
          {"step", step_},
          {"points", points},
          {"damaged", curves_.damaged}};
}

Json RunLog::names() const {
  std::vector<std::string> names;
  for (const auto& [name, curve] : curves_.steps) names.push_back(name);
  for (const std::string& name : curves_.metric_names) {
    if (curves_.metrics.contains(name)) names.push_back("metric." + name);
  }
  for (const auto& [name, curve] : curves_.epochs) {
    if (is_curve(name)) names.push_back("epoch." + name);
  }
  std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  return names;
}

const view::Curve* RunLog::find(const std::string& name) const {
  const auto in = [](const std::map<std::string, view::Curve>& curves, const std::string& key) {
    const auto found = curves.find(key);
    return found == curves.end() ? nullptr : &found->second;
  };
  if (name.starts_with("metric.")) return in(curves_.metrics, name.substr(7));
  if (name.starts_with("epoch.")) return in(curves_.epochs, name.substr(6));
  return in(curves_.steps, name);
}

Json RunLog::seconds_at(std::int64_t step) const {
  if (clock_.empty()) return nullptr;
  auto after = std::lower_bound(clock_.begin(), clock_.end(), step,
                                [](const view::CurvePoint& point, std::int64_t at) { return point.step < at; });
  if (after == clock_.end()) --after;  // after the last epoch: extrapolates at its speed
  const view::CurvePoint start = after == clock_.begin() ? view::CurvePoint{} : *(after - 1);
  const auto steps = static_cast<double>(after->step - start.step);
  if (steps <= 0) return after->value;
  return start.value + (after->value - start.value) * static_cast<double>(step - start.step) / steps;
}

Json RunLog::columns(const view::Curve& points) const {
  Json out = {{"steps", Json::array()}, {"values", Json::array()}, {"seconds", Json::array()}};
  for (const view::CurvePoint& point : points) {
    out["steps"].push_back(point.step);
    out["values"].push_back(point.value);
    out["seconds"].push_back(seconds_at(point.step));
  }
  return out;
}

Json RunLog::curve(const std::string& name, const CurveWindow& window, double smooth) const {
  const view::Curve* all = find(name);
  if (all == nullptr) return {{"total", 0}, {"raw", columns({})}, {"smooth", nullptr}};
  Json out = {{"total", all->size()}, {"raw", columns(decimated(*all, window))}, {"smooth", nullptr}};
  if (smooth > 0) out["smooth"] = columns(decimated(view::smoothed(*all, smooth), window));
  return out;
}

Json RunLog::events() const { return Json(std::vector<Json>(events_.begin(), events_.end())); }

}  // namespace lockstep::dashboard
