// SPDX-License-Identifier: Apache-2.0
// What scripts/hangs.py starts as ranks: steps of three sections and an all-reduce each, in which one rank does
// something wrong at one step. The variables FAULT, FAULT_RANK and FAULT_STEP say what, who and when; the moment
// (CLOCK_MONOTONIC, seconds) goes into the file FAULT_TIME.
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/base/env.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/trace.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/process_group.h"

namespace {

using lockstep::fault::in_section;
using lockstep::trace::Span;

constexpr int kSteps = 100'000'000;

struct Fault {
  std::string kind;
  int rank = -1;
  int step = -1;
};

Fault fault_of_environment() {
  using lockstep::env::get;
  return {get("FAULT").value_or(""), std::atoi(get("FAULT_RANK").value_or("-1").c_str()),
          std::atoi(get("FAULT_STEP").value_or("-1").c_str())};
}

void note_moment() {
  const auto file = lockstep::env::get("FAULT_TIME");
  if (!file) return;
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  std::ofstream(*file) << fmt::format("{:.6f}", now.count());
}

void do_wrong(const std::string& kind) {
  if (kind == "kill") ::raise(SIGKILL);
  if (kind == "stop") ::raise(SIGSTOP);
  if (kind == "exit") std::_Exit(1);
  if (kind == "exit0") std::_Exit(0);
  if (kind == "exception") throw std::runtime_error("no luck");
  volatile bool for_ever = kind == "loop";
  while (for_ever) continue;
}

int train(lockstep::Job& job) {
  const Fault fault = fault_of_environment();
  for (int step = 1; step <= kSteps; ++step) {
    lockstep::fault::note_step(step);
    const bool is_wrong = job.rank() == fault.rank && step == fault.step;
    if (is_wrong) note_moment();
    if (is_wrong && fault.kind == "early") return 0;
    {
      const Span span({.name = "DataLoader::next"});
      if (is_wrong && fault.kind == "data") std::this_thread::sleep_for(std::chrono::hours(1));
    }
    in_section("forward", [&] {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (is_wrong && fault.kind == "alone") do_wrong("loop");
    });
    if (fault.kind == "long") {
      if (is_wrong) in_section("save", [] { std::this_thread::sleep_for(std::chrono::seconds(3)); });
      if (step == fault.step + 5) return 0;
    }
    in_section("backward", [&] {
      if (is_wrong) do_wrong(fault.kind);
      // One rank leaves a collective out, and is ahead of the others from then on.
      if (!is_wrong || fault.kind != "skip") job.group().all_reduce(at::ones({1000})).wait();
    });
    if (step % 10 == 0) job.barrier();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
