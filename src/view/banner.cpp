// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/banner.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace {

constexpr std::size_t kRuleWidth = 80;
constexpr int kLabelWidth = 18;

using Lines = std::vector<std::pair<std::string, std::string>>;

std::string rule() { return std::string(kRuleWidth, '=') + "\n"; }

std::string render(const Lines& lines, int label_width) {
  std::string text;
  for (const auto& [label, value] : lines) text += pad(label, label_width) + "  " + value + "\n";
  return text;
}

/// One line a device; only the first bears the label.
void add_devices(Lines& lines, const std::vector<BannerDevice>& devices) {
  int width = 0;
  for (const BannerDevice& device : devices) width = std::max(width, display_width(device.place));
  for (const BannerDevice& device : devices) {
    const bool first = &device == &devices.front();
    lines.emplace_back(first ? (devices.size() == 1 ? "device" : "devices") : "",
                       pad(device.place, width) + "  " + device.name);
  }
}

/// "64 x 2 replicas = 128, found by batch_size: auto".
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
  add("batch", batch_text(info), info.batch_per_replica > 0);
  add("loader workers",
      info.workers > 0 ? fmt::format("{} per replica", info.workers) : "none (the training thread loads)",
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
  for (const auto& [command, what] : commands) {
    text += "  " + command + "\n";
    if (!what.empty()) text += "      " + what + "\n";
  }
  return text;
}

}  // namespace lockstep::view
