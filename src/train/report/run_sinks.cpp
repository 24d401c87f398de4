// SPDX-License-Identifier: Apache-2.0
#include "train/report/run_sinks.h"

#include "lockstep/base/fault.h"
#include "train/ranks/same_outcome.h"

namespace lockstep::train {
namespace {

using Sinks = std::vector<std::shared_ptr<RunSink>>;

template <class Event>
void tell(const Sinks& sinks, void (RunSink::*hear)(const Event&), const Event& event) {
  for (const auto& sink : sinks) (sink.get()->*hear)(event);
}

/// Calls the program's sinks. `section` is the event's name in the report of an exception.
template <class Event>
void tell_users(const Sinks& sinks, const char* section, void (RunSink::*hear)(const Event&), const Event& event) {
  if (!sinks.empty()) fault::in_section(section, [&] { tell(sinks, hear, event); });
}

}  // namespace

void RunSinks::start(const RunStart& event) {
  tell(own_, &RunSink::on_start, event);
  tell_users(users_, "on_start of a sink", &RunSink::on_start, event);
}

void RunSinks::gradients(const StepGradients& event) {
  trouble_.guard([&] { tell(own_, &RunSink::on_gradients, event); });
  tell_users(users_, "on_gradients of a sink", &RunSink::on_gradients, event);
}

void RunSinks::step(const StepResult& event) {
  trouble_.guard([&] { tell(own_, &RunSink::on_step, event); });
  tell_users(users_, "on_step of a sink", &RunSink::on_step, event);
}

void RunSinks::evaluating(const EvaluationProgress& event) {
  tell(own_, &RunSink::on_evaluating, event);
  tell_users(users_, "on_evaluating of a sink", &RunSink::on_evaluating, event);
}

void RunSinks::epoch(const EpochResult& event) {
  trouble_.guard([&] { tell(own_, &RunSink::on_epoch, event); });
  tell_users(users_, "on_epoch of a sink", &RunSink::on_epoch, event);
}

void RunSinks::stage(const StageChange& event) {
  trouble_.guard([&] { tell(own_, &RunSink::on_stage, event); });
  tell_users(users_, "on_stage of a sink", &RunSink::on_stage, event);
}

void RunSinks::save(const SaveResult& event) {
  trouble_.guard([&] { tell(own_, &RunSink::on_save, event); });
  tell_users(users_, "on_save of a sink", &RunSink::on_save, event);
}

void RunSinks::evaluation(const EvaluationResult& event) {
  do_on_main(job_, [&] { trouble_.guard([&] { tell(own_, &RunSink::on_evaluation, event); }); });
  tell_users(users_, "on_evaluation of a sink", &RunSink::on_evaluation, event);
}

void RunSinks::end(RunEnd event, const std::function<void(RunEnd&)>& finish) {
  do_on_main(job_, [&] {
    finish(event);
    tell(own_, &RunSink::on_end, event);
  });
  tell_users(users_, "on_end of a sink", &RunSink::on_end, event);
}

}  // namespace lockstep::train
