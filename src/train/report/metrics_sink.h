// SPDX-License-Identifier: Apache-2.0
// The run's metrics for Prometheus: the training thread writes them, and the server's threads read them.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/http/server.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/view/metrics_page.h"
#include "train/settings/metrics_address.h"

namespace lockstep::train {

/// A small single-page web server with its own threads, which serves GET /metrics until it is destroyed.
class MetricsServer {
 public:
  /// `page` builds the page; it is called on one of the server's threads. Throws: UsageError if the port is in use or
  /// the address does not belong to this machine.
  MetricsServer(const ServerAddress& address, std::function<std::string()> page);

  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  http::Server server_;
  std::string url_;
};

/// Serves the metrics on rank 0 during the run. No event waits for a client.
class MetricsSink final : public RunSink {
 public:
  /// `address` has the form of the setting metrics_address. Throws: UsageError for any other form. on_start() throws
  /// UsageError if the server cannot listen there; in a restarted group it warns, and on_step() tries again.
  explicit MetricsSink(const std::string& address, const Clock& clock = SystemClock::instance())
      : address_(parse_address(address)), clock_(clock) {}

  void on_start(const RunStart& event) override;
  void on_step(const StepResult& event) override;
  void on_evaluation(const EvaluationResult& event) override;
  void on_epoch(const EpochResult& event) override;
  void on_stage(const StageChange& event) override;
  void on_end(const RunEnd& event) override;

 private:
  [[nodiscard]] view::RunFigures figures() const;
  void serve();

  ServerAddress address_;
  const Clock& clock_;
  TimePoint next_try_ = {};
  bool said_ = false;  ///< the warning about the port has been printed
  mutable std::mutex mutex_;
  view::RunFigures figures_;             ///< guarded by mutex_
  std::optional<MetricsServer> server_;  ///< must be the last member, because its threads read the metrics
};

}  // namespace lockstep::train
