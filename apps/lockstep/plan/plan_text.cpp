// SPDX-License-Identifier: Apache-2.0
#include "lockstep/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/view/table.h"

namespace lockstep::apps {
namespace {

using simulate::Alternative;
using simulate::Plan;
using simulate::PlanPoint;
using simulate::Workload;
using Json = nlohmann::ordered_json;

constexpr double kPays = 0.01;  // share of a step
constexpr int kBarColumns = 24;

/// The rate over all ranks: in images per second if the number of images is known, otherwise in steps per second.
double rate_of(const PlanPoint& point, const Workload& workload) {
  return point.prediction.rate(point.cluster.ranks(), workload.images > 0 ? workload.images : 1);
}

double share_of_linear(const PlanPoint& point, const Plan& plan, const Workload& workload) {
  return rate_of(point, workload) / (rate_of(plan.curve.front(), workload) * point.cluster.ranks());
}

std::string rate_text(double rate) {
  return rate >= 1000 ? text::thousands(std::llround(rate)) : fmt::format("{:.4g}", rate);
}

std::string ms_text(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }
std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

/// A bar with a resolution of an eighth of a character.
std::string bar(double share) {
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kBarColumns * 8));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "\u2588";
  static constexpr const char* kParts[] = {"", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589"};
  return text + kParts[eighths % 8];
}

std::string source_text(const PlanSource& source, const Workload& workload) {
  const simulate::MeasuredStep& step = workload.steps.front();
  const auto buckets = simulate::bucket_bytes(step);
  std::string text =
      fmt::format("{}: {} of {} measured, {} ms each, {} ms of it computation\n", text::printable_line(source.name),
                  text::counted(std::ssize(workload.steps), "step"), text::counted(workload.ranks, "rank"),
                  ms_text(workload.measured_s), ms_text(simulate::median_compute_s(workload)));
  if (source.alone_s > 0) text += fmt::format("one rank alone: {} ms per step\n", ms_text(source.alone_s));
  text += fmt::format("gradients: {} in {}", text::bytes(static_cast<std::uint64_t>(simulate::gradient_bytes(step))),
                      text::counted(std::ssize(buckets), "bucket"));
  const auto others =
      std::count_if(step.calls.begin(), step.calls.end(), [](const auto& call) { return call.bucket < 0; });
  text += fmt::format(", and {} a step\n", text::counted(others, "other collective"));
  if (workload.images <= 0)
    text +=
        "the number of images per rank in a step is unknown (set --batch): rates are in steps/s, summed over all "
        "ranks\n";
  return text;
}

std::string asked_text(const PlanSource& source, const Workload& workload, const Plan& plan) {
  const simulate::Cluster& cluster = plan.asked.cluster;
  std::string text = fmt::format("{} with {}, {}", text::counted(cluster.machines, "machine"),
                                 text::counted(cluster.gpus, "rank"), simulate::backend_text(cluster.chosen()));
  if (cluster.machines > 1) text += ", link " + simulate::link_text(cluster.network);
  text += "\n";
  if (!source.measured.empty()) text += source.measured + "\n";
  text += fmt::format("predicted: {} ms per step, {} {}/s, {} of linear\n", ms_text(plan.asked.prediction.step_s),
                      rate_text(rate_of(plan.asked, workload)), workload.images > 0 ? "images" : "steps",
                      percent(share_of_linear(plan.asked, plan, workload)));
  return text;
}

std::string curve_text(const Workload& workload, const Plan& plan) {
  std::vector<std::vector<std::string>> rows;
  for (const PlanPoint& point : plan.curve) {
    const double share = share_of_linear(point, plan, workload);
    rows.push_back({text::thousands(point.cluster.ranks()), text::thousands(point.cluster.machines),
                    ms_text(point.prediction.step_s), ms_text(point.prediction.waiting_s),
                    rate_text(rate_of(point, workload)), percent(share), bar(share)});
  }
  return view::render_table({{.title = "ranks"},
                             {.title = "machines"},
                             {.title = "ms a step"},
                             {.title = "waiting"},
                             {.title = workload.images > 0 ? "images/s" : "steps/s"},
                             {.title = "of linear"},
                             {.title = "", .align = view::Align::kLeft}},
                            rows);
}

std::string gain_text(const Alternative& one) {
  const char* word = one.gain >= kPays ? "pays" : one.gain <= -kPays ? "costs" : "changes little";
  return fmt::format("{} ms, {:+.1f} %: {}", ms_text(one.step_s), one.gain * -100, word);
}

std::string advice_text(const Plan& plan) {
  std::string text = fmt::format("bottleneck: {}", plan.bottleneck);
  std::string without;
  for (const Alternative& one : plan.limits) {
    without += fmt::format("{}{} {}", without.empty() ? "" : ", ", one.name, ms_text(one.step_s));
  }
  text += fmt::format(" (step time with one limit removed: {} ms)\n", without);
  if (plan.best_bucket_bytes > 0) {
    text += fmt::format("bucket size: {} MiB would be best (bucket_cap_mb)\n", plan.best_bucket_bytes >> 20);
  } else {
    text += "bucket size: no better size found\n";
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto* list : {&plan.buckets, &plan.alternatives}) {
    for (const Alternative& one : *list) rows.push_back({one.name, gain_text(one)});
  }
  return text + view::render_table({{.title = "with", .align = view::Align::kLeft},
                                    {.title = "a step takes", .align = view::Align::kLeft}},
                                   rows);
}

Json json_of(const std::vector<Alternative>& list) {
  Json out = Json::array();
  for (const Alternative& one : list) {
    out.push_back({{"name", one.name}, {"step_ms", one.step_s * 1e3}, {"gain", one.gain}});
  }
  return out;
}

Json json_of(const PlanPoint& point, const Plan& plan, const Workload& workload) {
  Json out = {{"ranks", point.cluster.ranks()},
              {"machines", point.cluster.machines},
              {"backend", simulate::backend_text(point.cluster.chosen())},
              {"step_ms", point.prediction.step_s * 1e3},
              {"compute_ms", point.prediction.compute_s * 1e3},
              {"waiting_ms", point.prediction.waiting_s * 1e3},
              {"of_linear", share_of_linear(point, plan, workload)}};
  if (workload.images > 0) out["images_per_s"] = rate_of(point, workload);
  return out;
}

}  // namespace

std::string plan_text(const PlanSource& source, const Workload& workload, const Plan& plan) {
  return source_text(source, workload) + asked_text(source, workload, plan) + "\n" + curve_text(workload, plan) + "\n" +
         advice_text(plan);
}

std::string plan_json(const PlanSource& source, const Workload& workload, const Plan& plan) {
  Json curve = Json::array();
  for (const PlanPoint& point : plan.curve) curve.push_back(json_of(point, plan, workload));
  const Json out = {{"source", text::printable_line(source.name)},
                    {"measured_ms", workload.measured_s * 1e3},
                    {"measured_ranks", workload.ranks},
                    {"alone_ms", source.alone_s * 1e3},
                    {"measured_steps", workload.steps.size()},
                    {"gradient_bytes", simulate::gradient_bytes(workload.steps.front())},
                    {"bucket_bytes", simulate::bucket_bytes(workload.steps.front())},
                    {"images_per_rank", workload.images},
                    {"predicted", json_of(plan.asked, plan, workload)},
                    {"curve", curve},
                    {"bottleneck", plan.bottleneck},
                    {"without", json_of(plan.limits)},
                    {"best_bucket_mib", plan.best_bucket_bytes >> 20},
                    {"buckets", json_of(plan.buckets)},
                    {"alternatives", json_of(plan.alternatives)}};
  return out.dump() + "\n";
}

}  // namespace lockstep::apps
