// SPDX-License-Identifier: Apache-2.0
#include "train/report/run_sinks.h"

#include "lockstep/base/fault.h"
#include "train/ranks/same_outcome.h"

namespace lockstep::train {
namespace {

using Sinks = std::vector<std::shared_ptr<RunSink>>;

template <class Event>
void send(const Sinks& sinks, void (RunSink::*handler)(const Event&), const Event& event) {
  for (const auto& sink : sinks) (sink.get()->*handler)(event);
}

/// Calls the program's sinks. `section` names the event when an exception is reported.
template <class Event>
void send_to_users(const Sinks& sinks, const char* section, void (RunSink::*handler)(const Event&),
                   const Event& event) {
  if (!sinks.empty()) fault::in_section(section, [&] { send(sinks, handler, event); });
}

}  // namespace

void RunSinks::start(const RunStart& event) {
  send(own_, &RunSink::on_start, event);
  send_to_users(users_, "on_start of a sink", &RunSink::on_start, event);
}

void RunSinks::gradients(const StepGradients& event) {
  trouble_.guard([&] { send(own_, &RunSink::on_gradients, event); });
  send_to_users(users_, "on_gradients of a sink", &RunSink::on_gradients, event);
}

void RunSinks::step(const StepResult& event) {
  trouble_.guard([&] { send(own_, &RunSink::on_step, event); });
  send_to_users(users_, "on_step of a sink", &RunSink::on_step, event);
}

void RunSinks::evaluating(const EvaluationProgress& event) {
  send(own_, &RunSink::on_evaluating, event);
  send_to_users(users_, "on_evaluating of a sink", &RunSink::on_evaluating, event);
}

void RunSinks::epoch(const EpochResult& event) {
  trouble_.guard([&] { send(own_, &RunSink::on_epoch, event); });
  send_to_users(users_, "on_epoch of a sink", &RunSink::on_epoch, event);
}

void RunSinks::stage(const StageChange& event) {
  trouble_.guard([&] { send(own_, &RunSink::on_stage, event); });
  send_to_users(users_, "on_stage of a sink", &RunSink::on_stage, event);
}

void RunSinks::save(const SaveResult& event) {
  trouble_.guard([&] { send(own_, &RunSink::on_save, event); });
  send_to_users(users_, "on_save of a sink", &RunSink::on_save, event);
}

void RunSinks::evaluation(const EvaluationResult& event) {
  do_on_main(job_, [&] { trouble_.guard([&] { send(own_, &RunSink::on_evaluation, event); }); });
  send_to_users(users_, "on_evaluation of a sink", &RunSink::on_evaluation, event);
}

void RunSinks::end(RunEnd event, const std::function<void(RunEnd&)>& finish) {
  do_on_main(job_, [&] {
    finish(event);
    send(own_, &RunSink::on_end, event);
  });
  send_to_users(users_, "on_end of a sink", &RunSink::on_end, event);
}

}  // namespace lockstep::train
