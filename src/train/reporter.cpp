// SPDX-License-Identifier: Apache-2.0
#include "train/reporter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "lockstep/base/clock.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/train/tally.h"
#include "lockstep/view/terminal.h"

namespace lockstep::train {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;  // of a line in log.jsonl

void print(const std::string& text) {
  if (view::is_quiet()) return;  // log.jsonl and summary.json have it
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string number_or_null(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "null"; }

std::string memory_text(std::int64_t bytes) { return text::bytes(static_cast<std::uint64_t>(bytes)); }

/// Large pictures take seconds each.
std::string rate_text(double images_per_s) {
  constexpr double kWhole = 10;
  return fmt::format("{:.{}f}", images_per_s, images_per_s < kWhole ? 2 : 0);
}

/// Why the weights are taken back.
std::string stage_reason(const StageReport& report, const TrainConfig::Stages& options) {
  if (report.move == StageMove::kRollBack) return "no_better";
  return report.epoch >= options.stop_epoch ? "stop_epoch" : "patience";
}

std::string epoch_label(std::int64_t epoch, std::int64_t epochs) {
  return fmt::format("epoch {}/{}", epoch + 1, epochs);
}

std::vector<Metric> in_table(std::vector<Metric> metrics) {
  std::erase_if(metrics, [](const Metric& metric) { return !metric.in_table; });
  return metrics;
}

std::string terms_json(const std::vector<std::pair<std::string, double>>& terms) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : terms) {
    parts.push_back(
        fmt::format("{}: {}", text::json_quote(name), std::isfinite(value) ? fmt::format("{}", value) : "null"));
  }
  return "{" + text::join(parts) + "}";
}

std::string best_json(const TrainResult& result) {
  if (!result.best) return "";
  return fmt::format("\"best\": {{\"metric\": {}, \"value\": {}, \"step\": {}}}, ", text::json_quote(result.best->name),
                     result.best->value, result.best_step);
}

std::string summary_json(const TrainResult& result, const std::string& recipe, std::int64_t world_size) {
  return fmt::format(
      "{{\"recipe\": {}, \"world_size\": {}, \"replicas\": {}, \"epochs\": {}, \"steps\": {}, \"seconds\": {:.3f}, "
      "\"images_per_s\": {:.2f}, {}{}\"metrics\": {}, \"checkpoint\": {}}}\n",
      text::json_quote(recipe), world_size, result.replicas, result.epochs, result.steps, result.seconds,
      result.images_per_s, result.skipped_steps ? fmt::format("\"skipped_steps\": {}, ", *result.skipped_steps) : "",
      best_json(result), to_json(result.metrics), text::json_quote(result.checkpoint.string()));
}

}  // namespace

Reporter::Reporter(const TrainConfig& config, const TrainerOptions& options, const RunPlace& place)
    : config_(config),
      options_(options),
      folder_(place.path, {.resume = place.resume, .experiment = options.experiment}),
      bar_(view::ProgressBar::for_stderr(), SystemClock::instance()),
      rate_(SystemClock::instance()) {}

void Reporter::resume(std::int64_t step, int world_size) {
  folder_.drop_log_after(step);
  if (step == 0) return;  // a run that had not come far enough to save anything
  folder_.log({{"event", "\"resume\""}, {"step", std::to_string(step)}, {"world_size", std::to_string(world_size)}});
}

void Reporter::start(const view::BannerInfo& banner, const Plan& plan, const std::string& settings,
                     const StageState& stages) {
  plan_ = plan;
  epochs_ = last_epoch(config_, stages);
  // From here on the folder holds a run: a start that failed over its data may be tried again in the same folder.
  folder_.write(folder_.settings_file(), settings);
  print(view::banner(banner));
  rate_.restart();
}

void Reporter::step(const StepReport& report) {
  rate_.add(report.images);
  const auto rate = rate_.rate();
  view::ProgressState state{.label = epoch_label(report.epoch, epochs_),
                            .step = report.step_in_epoch,
                            .steps = plan_.steps_per_epoch,
                            .loss = report.loss,
                            .rate = rate};
  if (rate && *rate > 0) {
    state.seconds_left = static_cast<double>((plan_.total_steps - report.step) * plan_.total_batch) / *rate;
  }
  if (config_.log_every_steps > 0 && report.step % config_.log_every_steps == 0) {
    Entries line = {{"event", "\"step\""},
                    {"step", std::to_string(report.step)},
                    {"epoch", std::to_string(report.epoch + 1)},
                    {"loss", number_or_null(report.loss)},
                    {"lr", fmt::format("{}", report.lr)},
                    {"images_per_s", number_or_null(rate)}};
    if (!report.terms.empty()) line.emplace_back("losses", terms_json(report.terms));
    if (report.loss_scale) {
      line.emplace_back("loss_scale", fmt::format("{}", *report.loss_scale));
      line.emplace_back("skipped", std::to_string(report.skipped));
    }
    folder_.log(line);
  }
  bar_.update(state);
}

bool Reporter::has_summary() const { return FileSystem::system().exists(folder_.path() / "summary.json"); }

void Reporter::pause() { rate_.restart(); }

void Reporter::evaluating(std::int64_t done, std::int64_t total) {
  bar_.update({.label = "evaluating", .step = done, .steps = total, .unit = "images/s"});
}

void Reporter::print_header(const EpochReport& report) {
  const std::vector<Metric> metrics = in_table(report.metrics);
  metric_columns_ = metrics.size();
  const auto column = [](std::string title, int width, int leave_out) {
    return view::Column{.title = std::move(title), .width = width, .leave_out = leave_out};
  };
  // On a narrow terminal the last of these go first; log.jsonl has them all.
  std::vector<view::Column> columns = {column("epoch", 9, 0), column("step", 7, 3),     column("loss", 8, 0),
                                       column("lr", 9, 2),    column("images/s", 9, 1), column("wait", 6, 5),
                                       column("time", 8, 4),  column("memory", 8, 6)};
  if (report.memory.reserved) columns.push_back(column("reserved", 8, 8));
  if (report.skipped) columns.push_back(column("skipped", 7, 7));
  for (const Metric& metric : metrics)
    columns.push_back(column(metric.name == "loss" ? "test loss" : metric.name, 8, 0));
  table_.emplace(std::move(columns), view::is_terminal(STDOUT_FILENO) ? view::terminal_width(STDOUT_FILENO) : 0);
  print(table_->header());
}

void Reporter::print_row(const EpochReport& report) {
  // The first evaluation brings the metrics' columns.
  const std::vector<Metric> metrics = in_table(report.metrics);
  if (!table_ || metrics.size() > metric_columns_) print_header(report);
  std::vector<std::string> cells = {fmt::format("{}/{}", report.epoch + 1, epochs_),
                                    std::to_string(report.step),
                                    report.loss ? fmt::format("{:.4f}", *report.loss) : "-",
                                    fmt::format("{:.2e}", report.lr),
                                    rate_text(report.images_per_s),
                                    fmt::format("{:.1f} %", 100 * report.loading.wait),
                                    text::duration(report.seconds),
                                    memory_text(report.memory.peak)};
  if (report.memory.reserved) cells.push_back(memory_text(*report.memory.reserved));
  if (report.skipped) cells.push_back(std::to_string(*report.skipped));
  for (const Metric& metric : metrics) cells.push_back(fmt::format("{:.4f}", metric.value));
  if (metrics.empty()) cells.insert(cells.end(), metric_columns_, "-");
  print(table_->row(cells));
}

void Reporter::epoch(const EpochReport& report) {
  bar_.clear();
  print_row(report);
  Entries entries = {{"event", "\"epoch\""},
                     {"epoch", std::to_string(report.epoch + 1)},
                     {"step", std::to_string(report.step)},
                     {"loss", number_or_null(report.loss)},
                     {"lr", fmt::format("{}", report.lr)},
                     {"images_per_s", fmt::format("{:.2f}", report.images_per_s)},
                     {"data_wait", fmt::format("{:.5f}", report.loading.wait)},
                     {"seconds", fmt::format("{:.3f}", report.seconds)}};
  if (report.loading.bad_samples > 0) {
    log::note("{} {} left out so far", report.loading.bad_samples,
              report.loading.bad_samples == 1 ? "bad sample was" : "bad samples were");
    entries.emplace_back("bad_samples", std::to_string(report.loading.bad_samples));
  }
  entries.emplace_back("memory_peak", std::to_string(report.memory.peak));
  if (report.memory.reserved) entries.emplace_back("memory_reserved", std::to_string(*report.memory.reserved));
  if (report.skipped) entries.emplace_back("skipped", std::to_string(*report.skipped));
  entries.emplace_back("metrics", to_json(report.metrics));
  folder_.log(entries);
  rate_.restart();
}

void Reporter::stage(const StageReport& report) {
  const bool refresh = report.move == StageMove::kRefresh;
  epochs_ = report.epochs;
  plan_.total_steps = report.total_steps;
  bar_.clear();
  // The first words are those that users of the origin look for.
  std::string line = fmt::format("refresh EMA at epoch {} with decay {:g}", report.epoch, report.stages.decay);
  if (!report.averaged) line = fmt::format("refresh weights at epoch {}", report.epoch);
  print(fmt::format("{}: {} the first stage's best (step {})\n", line,
                    refresh ? "the second stage begins with" : "no better than before, back to",
                    text::thousands(report.stages.base_step)));
  folder_.log({{"event", "\"refresh\""},
               {"epoch", std::to_string(report.epoch)},
               {"step", std::to_string(report.step)},
               {"reason", text::json_quote(stage_reason(report, config_.stages))},
               {"decay", report.averaged ? fmt::format("{}", report.stages.decay) : "null"},
               {"from_step", std::to_string(report.stages.base_step)}});
}

void Reporter::results(const Tally* tally, std::int64_t epoch) {
  if (tally == nullptr) return;
  const auto files = tally->results(epoch + 1);
  if (!files.empty()) FileSystem::system().make_folder(folder_.path() / "result");
  for (const auto& [name, text] : files) folder_.write("result/" + name, text);
}

/// Pictures are a kindness: a run that trained well does not fail over them.
std::vector<std::filesystem::path> Reporter::draw(const Tally* tally) {
  if (tally == nullptr) return {};
  try {
    const auto pictures = folder_.path() / "pictures";
    FileSystem::system().make_folder(pictures);
    return tally->draw(pictures);
  } catch (const std::exception& error) {
    log::warn("no pictures of the evaluation: {}", error.what());
    return {};
  }
}

void Reporter::stopped(const TrainResult& result) {
  bar_.clear();
  folder_.log(
      {{"event", "\"stop\""}, {"step", std::to_string(result.steps)}, {"reason", text::json_quote(result.stopped_by)}});
  const std::string next = fmt::format("--run-dir {} --resume auto goes on from there", folder_.path().string());
  print(view::summary(
      fmt::format("stopped by {}", result.stopped_by),
      {{"steps", fmt::format("{} of {}", text::thousands(result.steps), text::thousands(plan_.total_steps))},
       {"checkpoint", result.checkpoint.string()},
       {"next", options_.has_options || options_.has_commands ? next : program_words(next)}}));
}

void Reporter::finish(const TrainResult& result, std::int64_t world_size, const std::string& text, const Tally* tally) {
  folder_.write("summary.json", summary_json(result, options_.recipe, world_size));
  Entries lines = {{"steps", fmt::format("{} in {} of training ({} images/s)", text::thousands(result.steps),
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
  if (result.best && result.best_step != result.steps) {
    lines.emplace_back("best", fmt::format("{} {:.4f} at step {} ({}:best)", result.best->name, result.best->value,
                                           text::thousands(result.best_step), folder_.path().string()));
  }
  lines.emplace_back("checkpoint", result.checkpoint.string());
  for (const auto& file : draw(tally)) lines.emplace_back("pictures", file.string());
  print(text + view::summary("done", lines));
  if (!options_.has_commands) return;
  const std::string run = folder_.path().string();
  const std::string data = config_.data.test.empty() ? "FOLDER" : config_.data.test;
  print(view::next_commands({{fmt::format("lockstep eval {} --checkpoint {} --data {}", options_.recipe, run, data),
                              "the metrics on a folder"},
                             {fmt::format("lockstep predict {} --checkpoint {} FILE...", options_.recipe, run),
                              "what the model reads in files"}}));
}

}  // namespace lockstep::train
