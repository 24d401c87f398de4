// SPDX-License-Identifier: Apache-2.0
// `lockstep explain`: a step of a run, with its samples, their losses, and the gradients by layer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/json.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/data/contact_sheet.h"
#include "lockstep/view/digest_chain.h"
#include "lockstep/view/run_curves.h"
#include "lockstep/view/table.h"
#include "worker/commands.h"
#include "worker/explain/replay.h"
#include "worker/explain/spikes.h"
#include "worker/median.h"
#include "worker/recipes.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;
using Rows = std::vector<std::vector<std::string>>;

struct ExplainArguments {
  ReplayRequest request;
  std::int64_t step = 0;
  bool spike = false;
  bool json = false;
  std::int64_t limit = 12;
  std::string pictures;
  std::string record;
  std::string skip_to;
};

bool parse(ExplainArguments& explain, const Arguments& arguments) {
  CLI::App app;
  cli::prepare(
      app, {.name = "lockstep explain",
            .description = "Show what happened in one step of a run: replay the step in one process, from the nearest "
                           "checkpoint, and list the loss of each sample and the gradient norm of each layer.",
            .examples = {"lockstep explain runs/digits --step 1200", "lockstep explain runs/digits --spike",
                         "lockstep explain runs/digits --step 1200 --pictures worst.png"},
            .notes = {"The column `loss alone` shows the loss of a batch that contains only the sample, twice, in "
                      "training mode with the weights before the step. The run's own files are not changed."}});
  app.add_option("RUN", explain.request.run, "a run folder")->required()->type_name("RUN");
  app.add_option("--step", explain.step, "the step to explain")->check(cli::whole({1, INT64_MAX}))->type_name("N");
  app.add_flag("--spike", explain.spike, "list the largest jumps of the loss, and explain the largest");
  app.add_option("--limit", explain.limit, "samples and layers to show")
      ->check(cli::whole({1, 1'000'000}))
      ->type_name("N");
  app.add_option("--pictures", explain.pictures, "draw the samples with the largest losses into this PNG file")
      ->type_name("FILE");
  app.add_option("--record", explain.record,
                 "write the digests of every operator into this JSON file, for bisect to compare")
      ->type_name("FILE");
  app.add_option("--skip-to", explain.skip_to,
                 "write the names of the samples shown into this file, for `lockstep train --skip-samples`")
      ->type_name("FILE");
  app.add_option("--set", explain.request.sets, "change a setting for the replay; may be given more than once")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_flag("--yes", explain.request.may_be_long, "replay even if it takes more than two minutes");
  app.add_flag("--json", explain.json, "print one JSON object instead of text");
  add_device_option(app, explain.request.device);
  if (!cli::parse(app, arguments)) return false;
  if (explain.spike == (explain.step > 0)) {
    throw UsageError("lockstep explain needs --step N or --spike",
                     "lockstep explain " + explain.request.run + " --spike");
  }
  return true;
}

std::string figure(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "not finite"; }

/// A sample of the step. worst_first() sorts samples by decreasing loss, and treats a loss that is not finite as the
/// largest.
struct ShownSample {
  int replica;
  const SampleRecord* sample;
  std::size_t picture;
};

std::vector<ShownSample> worst_first(const StepRecord& record) {
  std::vector<ShownSample> all;
  for (const BatchRecord& batch : record.batches) {
    for (const SampleRecord& sample : batch.samples) all.push_back({batch.replica, &sample, all.size()});
  }
  const auto weight = [](const ShownSample& shown) {
    return std::isfinite(shown.sample->loss) ? shown.sample->loss : INFINITY;
  };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return weight(a) > weight(b); });
  return all;
}

std::string samples_table(const StepRecord& record, std::int64_t limit) {
  const std::vector<ShownSample> all = worst_first(record);
  Rows rows;
  for (const ShownSample& shown : all) {
    if (std::ssize(rows) == limit) break;
    rows.push_back({std::to_string(shown.replica), figure(shown.sample->loss), std::to_string(shown.sample->index),
                    shown.sample->name});
  }
  return fmt::format(
      "samples: {}, largest 'loss alone' first\n{}", text::thousands(std::ssize(all)),
      view::render_table({{"replica"}, {"loss alone"}, {"index"}, {"sample", 0, view::Align::kLeft}}, rows));
}

/// Writes the samples that samples_table() shows.
void write_names(const StepRecord& record, const ExplainArguments& explain) {
  std::string names;
  std::int64_t left = explain.limit;
  for (const ShownSample& shown : worst_first(record)) {
    if (left-- > 0) names += shown.sample->name + "\n";
  }
  write_file_atomically(FileSystem::system(), explain.skip_to, names);
}

struct LayerRow {
  std::string layer;
  double norm = 0;
  double usual = 0;  ///< median of the preceding steps with a finite norm; NaN if there are none
  [[nodiscard]] double ratio() const { return usual > 0 ? norm / usual : std::nan(""); }
};

std::vector<LayerRow> layer_rows(const std::vector<LayerNorms>& norms) {
  std::vector<LayerRow> rows;
  if (norms.empty()) return rows;
  for (const auto& [layer, norm] : norms.back()) {
    std::vector<double> before;
    for (std::size_t i = 0; i + 1 < norms.size(); ++i) {
      const auto found = norms[i].find(layer);
      if (found != norms[i].end()) before.push_back(found->second);
    }
    rows.push_back({.layer = layer, .norm = norm, .usual = median_of_finite(before)});
  }
  const auto weight = [](const LayerRow& row) {
    if (!std::isfinite(row.norm)) return INFINITY + 0.0;
    return std::isfinite(row.ratio()) ? row.ratio() : 0.0;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) { return weight(a) > weight(b); });
  return rows;
}

std::string layers_table(const Replay& replay, std::int64_t limit) {
  Rows rows;
  for (const LayerRow& row : layer_rows(replay.norms)) {
    if (std::ssize(rows) == limit) break;
    rows.push_back({row.layer, figure(row.norm), std::isnan(row.usual) ? "-" : figure(row.usual),
                    std::isnan(row.ratio()) ? "-" : fmt::format("{:.2f}", row.ratio())});
  }
  if (rows.empty()) return "";
  const std::string title = fmt::format("median of {} steps", std::ssize(replay.norms) - 1);
  return fmt::format(
      "gradient norms by layer, most unusual first\n{}",
      view::render_table({{"layer", 0, view::Align::kLeft}, {"norm"}, {title + " before"}, {"ratio"}}, rows));
}

/// The loss that the run itself logged for the step; none if it did not log it.
std::optional<double> logged_loss(const std::string& run, std::int64_t step) {
  if (!FileSystem::system().exists(fs::path(run) / view::kRunLog)) return {};
  const view::RunCurves curves = view::read_run_curves(run);
  const auto loss = curves.steps.find("loss");
  if (loss == curves.steps.end()) return {};
  for (const view::CurvePoint& point : loss->second) {
    if (point.step == step) return point.value;
  }
  return {};
}

/// The digests that the run itself wrote for the step; none if it did not write them.
std::optional<view::DigestRecord> own_digests(const std::string& run, std::int64_t step) {
  if (!FileSystem::system().exists(fs::path(run) / view::kDigestFile)) return {};
  const view::DigestChain chain = view::DigestChain::load(run);
  const view::DigestRecord* const found = chain.at(step);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::string repeats(const Replay& replay, const std::string& run) {
  const StepRecord& record = replay.record;
  if (!std::isfinite(record.loss)) return "the loss is not finite in the replay either";
  if (const auto own = own_digests(run, record.step)) {
    if (has_digest(record, *own)) return "yes: loss, gradients and weights match the run's digests";
  } else if (const auto logged = logged_loss(run, record.step)) {
    if (*logged == record.loss) return "the loss matches to the last bit (the run kept no digests)";
  } else {
    return "unknown: the run kept no digests (digests) and logged no loss (log_every_steps) for this step";
  }
  return "no: this machine, libtorch or the data differ from the run's, or the run was disturbed";
}

std::string losses_text(const Replay& replay) {
  std::string text;
  for (const BatchRecord& batch : replay.record.batches) {
    if (batch.losses.empty()) continue;
    text += fmt::format("{}replica {}: {}", text.empty() ? "" : ", ", batch.replica, figure(batch.losses.front()));
  }
  return text;
}

AnnotatedImage picture_of(const at::Tensor& pixels, std::string caption) {
  const at::Tensor numbers = pixels.to(at::kFloat);
  const double low = numbers.min().item<double>();
  const double range = std::max(numbers.max().item<double>() - low, 1e-12);
  const at::Tensor bytes = ((numbers - low) * (255.0 / range)).round().to(at::kByte).permute({1, 2, 0}).contiguous();
  Image image{.size = {bytes.size(1), bytes.size(0)}, .channels = bytes.size(2)};
  image.pixels.assign(bytes.data_ptr<std::uint8_t>(), bytes.data_ptr<std::uint8_t>() + bytes.numel());
  AnnotatedImage picture;
  picture.pixels = std::move(image);
  picture.captions = {std::move(caption)};
  return picture;
}

void draw(const Replay& replay, const ExplainArguments& explain) {
  if (replay.pictures.empty()) {
    throw UsageError("the samples of this recipe are not images of 1 or 3 channels", "leave out --pictures");
  }
  std::vector<AnnotatedImage> pictures;
  for (const ShownSample& shown : worst_first(replay.record)) {
    if (std::ssize(pictures) == explain.limit || shown.picture >= replay.pictures.size()) break;
    pictures.push_back(picture_of(
        replay.pictures[shown.picture],
        fmt::format("{}  {}", figure(shown.sample->loss), fs::path(shown.sample->name).filename().string())));
  }
  write_png(contact_sheet(std::move(pictures)), explain.pictures);
}

void print_text(const Replay& replay, const ExplainArguments& explain) {
  const StepRecord& record = replay.record;
  std::string text = fmt::format("step {} of {}, replayed in one process from {}\n", text::thousands(record.step),
                                 explain.request.run, replay.checkpoint.empty() ? "the beginning" : replay.checkpoint);
  text += fmt::format("  loss       {}{}\n", figure(record.loss),
                      record.batches.size() > 1 ? fmt::format(" ({})", losses_text(replay)) : "");
  if (record.lr > 0) text += fmt::format("  lr         {:g}\n", record.lr);
  text += fmt::format("  repeats    {}\n", repeats(replay, explain.request.run));
  if (!replay.failure.empty()) text += fmt::format("  error      {}\n", replay.failure);
  cli::print(
      fmt::format("{}\n{}\n{}", text, samples_table(record, explain.limit), layers_table(replay, explain.limit)));
  if (!explain.pictures.empty()) print_to(stdout, "\npictures   {}\n", explain.pictures);
}

void print_json(const Replay& replay, const ExplainArguments& explain) {
  nlohmann::json samples = nlohmann::json::array();
  const auto number = [](double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); };
  for (const ShownSample& shown : worst_first(replay.record)) {
    samples.push_back({{"replica", shown.replica},
                       {"index", shown.sample->index},
                       {"sample", shown.sample->name},
                       {"loss_alone", number(shown.sample->loss)}});
  }
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerRow& row : layer_rows(replay.norms)) {
    layers.push_back({{"layer", row.layer}, {"norm", number(row.norm)}, {"usual", number(row.usual)}});
  }
  const auto logged = logged_loss(explain.request.run, replay.record.step);
  const nlohmann::json json = {{"step", replay.record.step},
                               {"from_step", replay.record.from_step},
                               {"loss", number(replay.record.loss)},
                               {"logged_loss", logged ? number(*logged) : nlohmann::json()},
                               {"repeats", repeats(replay, explain.request.run)},
                               {"lr", replay.record.lr},
                               {"error", replay.failure},
                               {"samples", samples},
                               {"layers", layers}};
  cli::print_json(json.dump() + "\n");
}

/// Prints the largest spikes and returns the step of the largest one.
std::int64_t find_spike(const std::string& run, bool quiet) {
  const std::vector<Spike> spikes = largest_spikes(view::read_run_curves(run).steps["loss"], 5);
  if (spikes.empty())
    throw DataError(
        fmt::format("the loss of {} has no jump: it never rises above the loss of the preceding steps", run));
  Rows rows;
  for (const Spike& spike : spikes) {
    rows.push_back(
        {text::thousands(spike.step), figure(spike.loss), figure(spike.usual), fmt::format("{:.1f}", spike.jump)});
  }
  if (!quiet) {
    print_to(stdout, "largest jumps of the loss\n{}\n",
             view::render_table({{"step"}, {"loss"}, {"median before"}, {"in deviations"}}, rows));
  }
  return spikes.front().step;
}

}  // namespace

int cmd_explain(const Arguments& arguments) {
  ExplainArguments explain;
  if (!parse(explain, arguments)) return 0;
  (void)settings_of_run(explain.request.run);
  explain.request.step = explain.spike ? find_spike(explain.request.run, explain.json) : explain.step;
  explain.request.operators = !explain.record.empty();
  explain.request.single_losses = explain.record.empty();
  cli::be_quiet();  // hides the banner and the steps of the replay
  const Replay replay = replay_step(explain.request);
  if (!explain.record.empty()) {
    write_record(replay.record, explain.record);
    return 0;
  }
  if (!explain.skip_to.empty()) write_names(replay.record, explain);
  if (!explain.pictures.empty()) draw(replay, explain);
  if (explain.json) {
    print_json(replay, explain);
  } else {
    print_text(replay, explain);
  }
  return 0;
}

}  // namespace lockstep::worker
