// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/metrics_page.h"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::view {
namespace {

std::string label_value(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// Builds the page; every sample has the run's labels.
class Page {
 public:
  explicit Page(std::string labels) : labels_(std::move(labels)) {}

  void add(const char* name, const char* help, double value) {
    begin(name, help);
    sample(name, "", value);
  }
  void add(const char* name, const char* help, const std::optional<double>& value) {
    if (value) add(name, help, *value);
  }
  void add(const char* name, const char* help, const std::vector<std::pair<std::string, double>>& values) {
    if (values.empty()) return;
    begin(name, help);
    for (const auto& [label, value] : values) sample(name, fmt::format(",name=\"{}\"", label_value(label)), value);
  }

  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  void begin(const char* name, const char* help) {
    text_ += fmt::format("# HELP lockstep_{0} {1}\n# TYPE lockstep_{0} gauge\n", name, help);
  }
  void sample(const char* name, const std::string& more, double value) {
    text_ += fmt::format("lockstep_{}{{{}{}}} {}\n", name, labels_, more, number(value));
  }

  std::string labels_;
  std::string text_;
};

double whole(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

std::string metrics_page(const RunFigures& figures) {
  Page page(fmt::format("recipe=\"{}\",run=\"{}\"", label_value(figures.recipe), label_value(figures.run)));
  page.add("step", "Optimizer steps done so far.", whole(figures.step));
  page.add("steps", "Optimizer steps of the whole run.", whole(figures.total_steps));
  page.add("epoch", "The current epoch, counted from 1.", whole(figures.epoch));
  page.add("world_size", "Ranks of the run.", whole(figures.world_size));
  page.add("restarts", "How many times the launcher has restarted the ranks.", whole(figures.restarts));
  page.add("loss", "Loss of the last logged step, the mean over all replicas.", figures.loss);
  page.add("loss_part", "Parts of that loss.", figures.losses);
  page.add("learning_rate", "Learning rate of that step.", figures.learning_rate);
  page.add("images_per_second", "Speed over the last few seconds, over all ranks.", figures.images_per_s);
  page.add("loss_scale", "Loss scale in fp16.", figures.loss_scale);
  page.add("skipped_steps", "Steps skipped because a gradient was not finite.", whole(figures.skipped));
  page.add("bad_samples", "Samples that were skipped.", whole(figures.bad_samples));
  page.add("data_wait_ratio", "Share of the last epoch that the slowest rank spent waiting for batches.",
           figures.data_wait);
  if (figures.memory_peak) {
    page.add("memory_peak_bytes", "Largest memory of any rank so far.", whole(*figures.memory_peak));
  }
  page.add("metric", "Metrics of the last evaluation.", figures.metrics);
  return std::move(page).text();
}

}  // namespace lockstep::view
