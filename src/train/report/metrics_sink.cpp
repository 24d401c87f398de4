// SPDX-License-Identifier: Apache-2.0
#include "train/report/metrics_sink.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/option_words.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kPlaces = 8;

http::Response answer(const http::Request& request, const std::function<std::string()>& page) {
  if (request.method != "GET" || request.path != "/metrics") return {.status = 404, .body = "see /metrics\n"};
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = page()};
}

constexpr auto kBetweenTries = std::chrono::seconds(5);

}  // namespace

MetricsServer::MetricsServer(const ServerAddress& address, std::function<std::string()> page)
    : server_({.host = address.host,
               .port = address.port,
               .next_step =
                   fmt::format("choose another port with {}; 0 picks any free port", option_words("metrics", "PORT")),
               .places = kPlaces,
               .answer = [page = std::move(page)](const http::Request& request) { return answer(request, page); }}),
      url_(server_.url() + "/metrics") {}

void MetricsSink::on_start(const RunStart& event) {
  figures_ = {.recipe = event.recipe,
              .run = event.run_dir.filename().string(),
              .world_size = event.world_size,
              .restarts = env::get_int("TORCHELASTIC_RESTART_COUNT").value_or(0),
              .step = event.step,
              .total_steps = event.total_steps};
  serve();
}

void MetricsSink::serve() {
  next_try_ = clock_.now() + kBetweenTries;
  try {
    server_.emplace(address_, [this] { return view::metrics_page(figures()); });
    log::note("the run's metrics are at {}", server_->url());
  } catch (const UsageError& problem) {
    // A rank of the previous group may still hold the port, which must not end the run.
    if (figures_.restarts == 0) throw;
    if (!std::exchange(said_, true)) log::warn("{}: the run continues and will retry", problem.message());
  }
}

void MetricsSink::on_step(const StepResult& event) {
  if (!server_ && clock_.now() >= next_try_) serve();
  const std::lock_guard lock(mutex_);
  figures_.step = event.step;
  figures_.epoch = event.epoch + 1;
  figures_.loss = event.loss;
  figures_.losses = event.terms;
  figures_.learning_rate = event.lr;
  figures_.images_per_s = event.images_per_s;
  figures_.loss_scale = event.loss_scale;
  figures_.skipped = event.skipped;
}

void MetricsSink::on_evaluation(const EvaluationResult& event) {
  const std::lock_guard lock(mutex_);
  figures_.metrics.clear();
  for (const Metric& metric : event.metrics) figures_.metrics.emplace_back(metric.name, metric.value);
}

void MetricsSink::on_epoch(const EpochResult& event) {
  const std::lock_guard lock(mutex_);
  figures_.data_wait = event.data_wait;
  figures_.memory_peak = event.memory.peak;
  figures_.bad_samples = event.bad_samples;
}

void MetricsSink::on_stage(const StageChange& event) {
  const std::lock_guard lock(mutex_);
  figures_.total_steps = event.total_steps;
}

void MetricsSink::on_end(const RunEnd& /*event*/) { server_.reset(); }

view::RunFigures MetricsSink::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

}  // namespace lockstep::train
