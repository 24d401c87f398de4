// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/banner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace {

constexpr std::size_t kRuleWidth = 80;
constexpr int kLabelWidth = 18;
constexpr std::size_t kMostDevices = 16;  // maximum number of devices with a line each

using Lines = std::vector<std::pair<std::string, std::string>>;

std::string rule() { return std::string(kRuleWidth, '=') + "\n"; }

std::string render(const Lines& lines, int label_width) {
  std::string text;
  for (const auto& [label, value] : lines) text += pad(label, label_width) + "  " + value + "\n";
  return text;
}

/// Returns the text for ranks `first` to `last` with the same device: "rank 3 on node1", "ranks 8 to 15".
std::string place_of(const BannerDevice& first, const BannerDevice& last, bool with_host) {
  std::string place = fmt::format("rank {}", first.rank);
  if (last.rank > first.rank) place = fmt::format("ranks {} to {}", first.rank, last.rank);
  return with_host ? place + " on " + first.host : place;
}

/// Adds one line per device, if there are not too many. Only the first line has the label.
void add_devices(Lines& lines, const std::vector<BannerDevice>& devices) {
  const auto same_host = [&](const BannerDevice& device) { return device.host == devices.front().host; };
  const bool with_host = !std::all_of(devices.begin(), devices.end(), same_host);
  Lines rows;
  int width = 0;
  for (std::size_t first = 0, end = 0; first < devices.size(); first = end) {
    end = first + 1;
    const auto equal = [&](const BannerDevice& a, const BannerDevice& b) {
      return a.host == b.host && a.name == b.name;
    };
    while (devices.size() > kMostDevices && end < devices.size() && equal(devices[first], devices[end])) ++end;
    rows.emplace_back(place_of(devices[first], devices[end - 1], with_host), devices[first].name);
    width = std::max(width, display_width(rows.back().first));
  }
  const char* label = devices.size() == 1 ? "device" : "devices";
  for (const auto& [place, name] : rows) lines.emplace_back(std::exchange(label, ""), pad(place, width) + "  " + name);
}

/// Returns "64 x 2 replicas = 128, found by batch_size: auto".
std::string batch_text(const BannerInfo& info) {
  std::string text = fmt::format("{} x {} {}", text::thousands(info.batch_per_replica), info.replicas,
                                 info.replicas == 1 ? "replica" : "replicas");
  if (info.accumulate_steps > 1) text += fmt::format(" x {} accumulated", info.accumulate_steps);
  text += " = " + text::thousands(info.batch_per_replica * info.replicas * info.accumulate_steps);
  return info.batch_origin.empty() ? text : text + ", " + info.batch_origin;
}

std::string learning_rate_text(const BannerInfo& info) {
  std::string text = fmt::format("{:g}", info.learning_rate);
  if (info.learning_rate_scaling == "none" || info.base_learning_rate == 0) return text + ", not scaled";
  return text + fmt::format(", {:g} scaled by {}", info.base_learning_rate, info.learning_rate_scaling);
}

std::string length_text(const BannerInfo& info) {
  const std::string epochs = text::thousands(info.epochs);
  return info.max_steps > 0 ? fmt::format("{}, at most {} steps", epochs, text::thousands(info.max_steps)) : epochs;
}

Lines lines_of(const BannerInfo& info) {
  Lines lines;
  const auto add = [&lines](const char* label, const std::string& value, bool shown) {
    if (shown) lines.emplace_back(label, value);
  };
  add_devices(lines, info.devices);
  add("backend", info.backend_reason.empty() ? info.backend : fmt::format("{} ({})", info.backend, info.backend_reason),
      !info.backend.empty());
  add("model",
      info.parameters > 0 ? fmt::format("{}, {} parameters", info.model, text::thousands(info.parameters)) : info.model,
      !info.model.empty());
  add("total batch", batch_text(info), info.batch_per_replica > 0);
  add("loader workers",
      info.workers > 0 ? fmt::format("{} per replica", info.workers) : "none (the training thread loads the data)",
      info.workers >= 0);
  add("training samples", text::thousands(info.train_samples), info.train_samples > 0);
  add("test samples", text::thousands(info.test_samples), info.test_samples > 0);
  add("steps per epoch", text::thousands(info.steps_per_epoch), info.steps_per_epoch > 0);
  add("epochs", length_text(info), info.epochs > 0);
  add("precision", info.precision, !info.precision.empty());
  add("learning rate", learning_rate_text(info), info.learning_rate > 0);
  add("schedule", info.schedule, !info.schedule.empty());
  lines.insert(lines.end(), info.extra.begin(), info.extra.end());
  add("resumed from", info.resumed_from, !info.resumed_from.empty());
  add("run folder", info.run_folder, !info.run_folder.empty());
  return lines;
}

int label_width(const Lines& lines, int least) {
  for (const auto& [label, value] : lines) least = std::max(least, display_width(label));
  return least;
}

}  // namespace

std::string banner(const BannerInfo& info) { return summary(info.title, lines_of(info)); }

std::string summary(const std::string& title, const std::vector<std::pair<std::string, std::string>>& lines) {
  return rule() + title + "\n" + rule() + render(lines, label_width(lines, kLabelWidth)) + rule();
}

std::string next_commands(const std::vector<std::pair<std::string, std::string>>& commands) {
  if (commands.empty()) return "";
  std::string text = "next\n";
  for (const auto& [command, explanation] : commands) {
    text += "  " + command + "\n";
    if (!explanation.empty()) text += "      " + explanation + "\n";
  }
  return text;
}

}  // namespace lockstep::view
