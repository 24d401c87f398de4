// SPDX-License-Identifier: Apache-2.0
#include "train/report/tensorboard_sink.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

#include "lockstep/base/log.h"
#include "lockstep/data/decode.h"
#include "lockstep/tensor/named_tensors.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

// TensorBoard groups tags by the word before the '/'. The words are those of the programs that the recipes re-create.
constexpr const char* kLoss = "Loss/total";
constexpr const char* kMeanLoss = "Loss/mean_of_epoch";

std::string test_tag(const Metric& metric) { return "Test/" + metric.name; }

/// Returns the name of a run's folder, even if the path is given as "." or with a trailing slash.
std::string name_of(const fs::path& run_dir) {
  const fs::path path = fs::absolute(run_dir).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

view::Histogram histogram_of_tensor(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.is_sparse() ? tensor.to_dense() : tensor;
  const at::Tensor values = dense.detach().to(at::Device(at::kCPU), at::kFloat).contiguous();
  return view::histogram_of(values.data_ptr<float>(), static_cast<std::size_t>(values.numel()));
}

view::HyperParameters hyper_parameters(const TrainConfig& config) {
  view::HyperParameters settings;
  const ConfigFields rows = config.rows();
  for (const ConfigFields::Field& field : rows.fields()) {
    if (field.host || !field.unused.empty()) continue;  // the result does not depend on these
    if (auto* const* number = std::get_if<double*>(&field.target)) {
      settings.emplace_back(field.key, **number);
    } else if (auto* const* whole = std::get_if<std::int64_t*>(&field.target)) {
      settings.emplace_back(field.key, static_cast<double>(**whole));
    } else if (auto* const* found = std::get_if<AutoInt*>(&field.target); found != nullptr && !(*found)->is_auto()) {
      settings.emplace_back(field.key, static_cast<double>((*found)->value()));
    } else if (auto* const* truth = std::get_if<bool*>(&field.target)) {
      settings.emplace_back(field.key, **truth);
    } else if (auto* const* text = std::get_if<std::string*>(&field.target)) {
      settings.emplace_back(field.key, **text);
    } else {
      settings.emplace_back(field.key, ConfigFields::value_text(field.target));
    }
  }
  return settings;
}

}  // namespace

std::optional<fs::path> tensorboard_folder(const std::string& tensorboard, const fs::path& run_dir) {
  if (tensorboard == "none") return std::nullopt;
  return tensorboard == "auto" ? run_dir / "tensorboard" : fs::path(tensorboard) / name_of(run_dir);
}

void TensorBoardSink::on_start(const RunStart& event) {
  file_.emplace(folder_, view::EventFileOptions{.after_step = event.step});
  file_->text(event.step, "run/settings", view::as_is(event.settings));
  if (!event.banner.empty()) file_->text(event.step, "run/banner", view::as_is(event.banner));
  file_->start_session(hyper_parameters(config_), name_of(event.run_dir));
  file_->flush();
}

void TensorBoardSink::on_gradients(const StepGradients& event) {
  for (const auto& [name, weights] : named_parameters_of(event.model)) {
    file_->histogram(event.step, "Weights/" + name, histogram_of_tensor(weights));
    // With ZeRO, this rank may have the means of only some gradients.
    if (config_.optimizer.zero || !weights.grad().defined()) continue;
    file_->histogram(event.step, "Gradients/" + name, histogram_of_tensor(weights.grad() / event.loss_scale));
  }
  file_->flush();
}

void TensorBoardSink::on_step(const StepResult& event) {
  if (config_.log_every_steps == 0 || event.step % config_.log_every_steps != 0) return;
  view::Scalars points;
  points.reserve(5 + event.terms.size());
  if (event.loss) points.emplace_back(kLoss, *event.loss);
  for (const auto& [name, value] : event.terms) points.emplace_back("Loss/" + name, value);
  points.emplace_back("Lr/pg_0", event.lr);
  if (event.images_per_s) points.emplace_back("Speed/images_per_s", *event.images_per_s);
  if (event.loss_scale) {
    points.emplace_back("Precision/loss_scale", *event.loss_scale);
    points.emplace_back("Precision/skipped_steps", static_cast<double>(event.skipped));
  }
  file_->scalars(event.step, points);
}

void TensorBoardSink::on_evaluation(const EvaluationResult& event) {
  view::Scalars points;
  for (const Metric& metric : event.metrics) points.emplace_back(test_tag(metric), metric.value);
  file_->scalars(event.step, points);
  file_->flush();
}

void TensorBoardSink::on_epoch(const EpochResult& event) {
  view::Scalars points = {{"Speed/data_wait_percent", 100 * event.data_wait},
                          {"Speed/seconds_per_epoch", event.seconds},
                          {"Memory/peak_MB", static_cast<double>(event.memory.peak) / 1e6}};
  if (event.loss) points.emplace_back(kMeanLoss, *event.loss);
  if (event.memory.reserved) {
    points.emplace_back("Memory/reserved_MB", static_cast<double>(*event.memory.reserved) / 1e6);
  }
  if (event.bad_samples > 0) points.emplace_back("Data/bad_samples", static_cast<double>(event.bad_samples));
  file_->scalars(event.step, points);
  file_->flush();
}

void TensorBoardSink::on_stage(const StageChange& event) {
  file_->text(event.step, "run/stages",
              fmt::format("{} from the first stage's best (step {}), because of {}",
                          event.rolled_back ? "the second stage restarts" : "the second stage starts", event.from_step,
                          event.reason));
}

void TensorBoardSink::on_end(const RunEnd& event) {
  if (event.result.stopped_by.empty()) {
    add_pictures(event);
    if (!event.report.empty()) file_->text(event.result.steps, "run/report", view::as_is(event.report));
    std::vector<std::string> metrics;
    for (const Metric& metric : event.result.metrics) metrics.push_back(test_tag(metric));
    if (metrics.empty()) metrics.emplace_back(kMeanLoss);
    file_->end_session(hyper_parameters(config_), metrics, true);
  }
  file_->flush();
}

void TensorBoardSink::add_pictures(const RunEnd& event) {
  for (const fs::path& path : event.pictures) {
    const std::string bytes = FileSystem::system().read(path, kMostPictureBytes);
    if (!file_->image(event.result.steps, "Pictures/" + path.stem().string(), bytes)) {
      log::debug("{} is neither a PNG nor a JPEG file: it is not shown in TensorBoard", path.string());
    }
  }
}

}  // namespace lockstep::train
