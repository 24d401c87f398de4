// SPDX-License-Identifier: Apache-2.0
#include "train/report/console_sink.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>

#include "lockstep/base/clock.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"
#include "lockstep/base/printable.h"
#include "lockstep/base/text.h"
#include "lockstep/view/banner.h"
#include "lockstep/view/terminal.h"

namespace lockstep::train {
namespace {

void print(const std::string& text) {
  if (view::is_quiet()) return;                     // log.jsonl and summary.json have the same content
  const std::string words = text::printable(text);  // metric names may come from files
  std::fwrite(words.data(), 1, words.size(), stdout);
  std::fflush(stdout);
}

std::string memory_text(std::int64_t bytes) { return text::bytes(static_cast<std::uint64_t>(bytes)); }

std::string speed_text(double bytes_per_s) { return memory_text(static_cast<std::int64_t>(bytes_per_s)) + "/s"; }

/// Returns the traffic between hosts; none if all ranks are on the same host.
std::optional<view::NetworkSum> network_of(const EpochResult& event) {
  return event.step_report ? view::network_of(*event.step_report) : std::nullopt;
}

/// Returns the rate, with decimals if it is low, as it is for large images.
std::string rate_text(double images_per_s) {
  constexpr double kWhole = 10;
  return fmt::format("{:.{}f}", images_per_s, images_per_s < kWhole ? 2 : 0);
}

std::string epoch_label(std::int64_t epoch, std::int64_t epochs) {
  return fmt::format("epoch {}/{}", epoch + 1, epochs);
}

std::vector<Metric> in_table(std::vector<Metric> metrics) {
  std::erase_if(metrics, [](const Metric& metric) { return !metric.in_table; });
  return metrics;
}

}  // namespace

ConsoleSink::ConsoleSink(const TrainConfig& config, const TrainerOptions& options)
    : config_(config), options_(options), bar_(view::ProgressBar::for_stderr(), SystemClock::instance()) {}

void ConsoleSink::on_start(const RunStart& event) {
  run_ = event;
  print(event.banner);
}

void ConsoleSink::on_step(const StepResult& event) {
  print_findings();
  const auto& rate = event.images_per_s;
  view::ProgressState state{.label = epoch_label(event.epoch, run_.epochs),
                            .step = event.step_in_epoch,
                            .steps = run_.steps_per_epoch,
                            .loss = event.loss,
                            .rate = rate};
  if (rate && *rate > 0) {
    state.seconds_left = static_cast<double>((run_.total_steps - event.step) * run_.total_batch) / *rate;
  }
  bar_.update(state);
}

void ConsoleSink::on_evaluating(const EvaluationProgress& event) {
  bar_.update({.label = "evaluating", .step = event.done, .steps = event.total, .unit = "images/s"});
}

void ConsoleSink::print_header(const EpochResult& event) {
  const std::vector<Metric> metrics = in_table(event.metrics);
  metric_columns_ = metrics.size();
  const auto column = [](std::string title, int width, int leave_out) {
    return view::Column{.title = std::move(title), .width = width, .leave_out = leave_out};
  };
  const bool has_network = network_of(event).has_value();
  // On a narrow terminal, columns with high numbers are dropped first; log.jsonl has all values.
  std::vector<view::Column> columns = {column("epoch", 9, 0), column("step", 7, 3),     column("loss", 8, 0),
                                       column("lr", 9, 2),    column("images/s", 9, 1), column("wait", 6, 5),
                                       column("time", 8, 4),  column("memory", 8, 6)};
  // With several hosts, a step may wait for the network.
  if (has_network) {
    for (const char* title : {"sent", "received"}) columns.push_back(column(title, 9, 1));
    columns.push_back(column("resent", 6, 2));
  }
  if (event.memory.reserved) columns.push_back(column("reserved", 8, 8));
  if (event.skipped) columns.push_back(column("skipped", 7, 7));
  for (const Metric& metric : metrics)
    columns.push_back(column(metric.name == "loss" ? "test loss" : metric.name, 8, 0));
  table_.emplace(std::move(columns), view::is_terminal(STDOUT_FILENO) ? view::terminal_width(STDOUT_FILENO) : 0);
  print(table_->header());
}

void ConsoleSink::print_row(const EpochResult& event) {
  // The first evaluation adds the metrics' columns.
  const std::vector<Metric> metrics = in_table(event.metrics);
  if (!table_ || metrics.size() > metric_columns_) print_header(event);
  std::vector<std::string> cells = {fmt::format("{}/{}", event.epoch + 1, run_.epochs),
                                    std::to_string(event.step),
                                    event.loss ? fmt::format("{:.4f}", *event.loss) : "-",
                                    fmt::format("{:.2e}", event.lr),
                                    rate_text(event.images_per_s),
                                    fmt::format("{:.1f} %", 100 * event.data_wait),
                                    text::duration(event.seconds),
                                    memory_text(event.memory.peak)};
  if (const auto network = network_of(event)) {
    cells.push_back(speed_text(network->sent));
    cells.push_back(speed_text(network->received));
    cells.push_back(std::to_string(network->resent));
  }
  if (event.memory.reserved) cells.push_back(memory_text(*event.memory.reserved));
  if (event.skipped) cells.push_back(std::to_string(*event.skipped));
  for (const Metric& metric : metrics) cells.push_back(fmt::format("{:.4f}", metric.value));
  if (metrics.empty()) cells.insert(cells.end(), metric_columns_, "-");
  print(table_->row(cells));
}

void ConsoleSink::on_epoch(const EpochResult& event) {
  bar_.clear();
  print_row(event);
  keep_findings(event);
  if (event.bad_samples == 0) return;
  log::note("{} {} skipped so far", event.bad_samples, event.bad_samples == 1 ? "bad sample was" : "bad samples were");
}

void ConsoleSink::keep_findings(const EpochResult& event) {
  if (event.step_report) new_ = view::new_findings(event.step_report->findings, said_);
}

void ConsoleSink::print_findings() {
  if (new_.empty()) return;
  bar_.clear();
  print(view::findings_text(new_));
  said_.insert(said_.end(), new_.begin(), new_.end());
  new_.clear();
}

void ConsoleSink::print_report(const RunEnd& event) {
  if (!event.step_report) return;
  view::StepReport report = *event.step_report;
  // The findings of the last epoch have not been printed yet.
  for (view::Finding& each : view::new_findings(new_, report.findings)) report.findings.push_back(std::move(each));
  print("\n" + view::report_text(report));
}

void ConsoleSink::on_stage(const StageChange& event) {
  run_.epochs = event.epochs;
  run_.total_steps = event.total_steps;
  bar_.clear();
  // The line begins like the original program's, so that its users recognize it.
  const std::string heading = event.decay
                                  ? fmt::format("refresh EMA at epoch {} with decay {:g}", event.epoch, *event.decay)
                                  : fmt::format("refresh weights at epoch {}", event.epoch);
  print(fmt::format("{}: {} the first stage's best (step {})\n", heading,
                    event.rolled_back ? "no better than before, returning to" : "the second stage starts from",
                    text::thousands(event.from_step)));
}

void ConsoleSink::on_end(const RunEnd& event) {
  bar_.clear();
  print_report(event);
  if (event.result.stopped_by.empty()) {
    print_complete(event);
  } else {
    print_stopped(event);
  }
}

void ConsoleSink::print_stopped(const RunEnd& event) {
  bar_.clear();
  const TrainResult& result = event.result;
  const std::string next = fmt::format("{} {} continues from there", option_words("run-dir", result.run_dir.string()),
                                       option_words("resume", "auto"));
  print(view::summary(
      fmt::format("stopped by {}", result.stopped_by),
      {{"steps", fmt::format("{} of {}", text::thousands(result.steps), text::thousands(run_.total_steps))},
       {"checkpoint", result.checkpoint.string()},
       {"next", next}}));
}

void ConsoleSink::print_complete(const RunEnd& event) {
  const TrainResult& result = event.result;
  std::vector<std::pair<std::string, std::string>> lines = {
      {"steps", fmt::format("{} in {} of training ({} images/s)", text::thousands(result.steps),
                            text::duration(result.seconds), rate_text(result.images_per_s))}};
  if (result.skipped_steps) {
    lines.emplace_back("skipped",
                       fmt::format("{} of them: a gradient was not finite", text::thousands(*result.skipped_steps)));
  }
  for (const Metric& metric : in_table(result.metrics)) {
    lines.emplace_back(metric.name, fmt::format("{:.4f}", metric.value));
  }
  if (!config_.stop_at.metric.empty()) {
    lines.emplace_back("target", fmt::format("{} {} {}", config_.stop_at.metric, config_.stop_at.value,
                                             result.reached_target ? "reached" : "not reached"));
  }
  const std::string run = result.run_dir.string();
  if (result.best && result.best_step != result.steps) {
    // A run that began in a different folder may have left its best checkpoint there.
    std::error_code ignored;
    const bool is_here = std::filesystem::exists(result.run_dir / "checkpoints/best", ignored);
    lines.emplace_back("best",
                       fmt::format("{} {:.4f} at step {}{}", result.best->name, result.best->value,
                                   text::thousands(result.best_step), is_here ? fmt::format(" ({}:best)", run) : ""));
  }
  lines.emplace_back("checkpoint", result.checkpoint.string());
  for (const auto& file : event.pictures) lines.emplace_back("pictures", file.string());
  print(event.report + view::summary("done", lines));
  if (!options_.has_commands) return;
  const std::string folder = text::shell_word(run);
  const std::string data = config_.data.test.empty() ? "FOLDER" : text::shell_word(config_.data.test);
  print(view::next_commands({{fmt::format("lockstep eval {} --checkpoint {} --data {}", options_.recipe, folder, data),
                              "metrics for a folder"},
                             {fmt::format("lockstep predict {} --checkpoint {} FILE...", options_.recipe, folder),
                              "the model's predictions for files"}}));
}

}  // namespace lockstep::train
