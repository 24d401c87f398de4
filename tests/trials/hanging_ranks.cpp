// SPDX-License-Identifier: Apache-2.0
// The ranks of scripts/trials/trial hangs: steps with three sections and an all-reduce each; one rank has a fault at
// one step. The variables FAULT, FAULT_RANK and FAULT_STEP specify the fault, the rank and the step; the time of the
// fault (CLOCK_MONOTONIC, seconds) is written to the file FAULT_TIME. A second program built from this file has fake
// GPUs.
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/base/env.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/trace.h"
#include "lockstep/comm/group_check.h"
#include "lockstep/comm/job.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/work.h"

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

// Stops or kills this process once, soon: from a separate thread, wherever the main thread is by then.
void signal_within(std::chrono::microseconds longest, int number, int seed) {
  std::minstd_rand random(static_cast<unsigned>(seed) * 7919U + 1U);
  const auto delay = std::chrono::microseconds(random() % static_cast<unsigned>(longest.count()));
  std::thread([delay, number] {
    std::this_thread::sleep_for(delay);
    note_moment();
    ::kill(::getpid(), number);
  }).detach();
}

// On the rank's device.
at::Tensor ones_of(const lockstep::Job& job, std::int64_t count) {
  return at::ones({count}, at::TensorOptions(job.device()));
}

// Waits for the GPU, as a program that reads its loss does.
void sum(const lockstep::Job& job, std::int64_t count) {
  const at::Tensor values = ones_of(job, count);
  job.group().all_reduce(values).wait();
  if (values.is_cpu()) return;
  (void)values[0].item<float>();
  lockstep::check_group(job.group());
}

constexpr std::int64_t kMany = 4'000'000;  // 16 MB: the operation takes long enough for a rank to be stopped during it

// Each rank sends to the next one.
void pass_on(const lockstep::Job& job) {
  const int world = job.world_size();
  const at::Tensor out = ones_of(job, kMany);
  const at::Tensor in = ones_of(job, kMany);
  lockstep::Work sent = job.group().send(out, (job.rank() + 1) % world);
  job.group().recv(in, (job.rank() + world - 1) % world).wait();
  sent.wait();
}

// The work of all ranks at the step of the fault. `is_wrong`: this rank is stopped or killed during that work; if it
// must be asleep at that moment, the others arrive later.
void end_inside(const lockstep::Job& job, const Fault& fault, bool is_wrong) {
  const bool sleeps = fault.kind == "stop_barrier" || fault.kind == "stop_wait";
  const auto longest = sleeps ? std::chrono::milliseconds(120) : std::chrono::milliseconds(12);
  if (is_wrong) signal_within(longest, fault.kind == "kill_reduce" ? SIGKILL : SIGSTOP, fault.step);
  if (sleeps && !is_wrong) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (fault.kind.ends_with("_reduce") || fault.kind == "stop_wait") sum(job, kMany);
  if (fault.kind == "stop_barrier") job.barrier();
  if (fault.kind == "stop_copy") job.group().broadcast(ones_of(job, kMany), fault.step % job.world_size()).wait();
  if (fault.kind == "stop_message") pass_on(job);
}

int train(lockstep::Job& job) {
  const Fault fault = fault_of_environment();
  const bool ends_inside = fault.kind.starts_with("stop_") || fault.kind == "kill_reduce";
  for (int step = 1; step <= kSteps; ++step) {
    lockstep::fault::note_step(step);
    const bool is_wrong = job.rank() == fault.rank && step == fault.step;
    if (is_wrong && !ends_inside) note_moment();
    if (step == fault.step && ends_inside) end_inside(job, fault, is_wrong);
    if (fault.kind.starts_with("suspend") && step == fault.step + 500) return 0;
    if (is_wrong && fault.kind == "early") return 0;
    {
      const Span span({.name = "DataLoader::next"});
      if (is_wrong && fault.kind == "data") std::this_thread::sleep_for(std::chrono::hours(1));
    }
    const bool saves = is_wrong && (fault.kind == "long" || fault.kind == "suspend_save");
    if (saves) in_section("save", [] { std::this_thread::sleep_for(std::chrono::seconds(3)); });
    in_section("forward", [&] {
      std::this_thread::sleep_for(saves ? std::chrono::microseconds(600'000) : std::chrono::microseconds(200));
      if (is_wrong && fault.kind == "alone") do_wrong("loop");
    });
    if (fault.kind == "long" && step == fault.step + 5) return 0;
    in_section("backward", [&] {
      if (is_wrong) do_wrong(fault.kind);
      // One rank skips a collective and from then on is one ahead of the others.
      if (!is_wrong || fault.kind != "skip") sum(job, 1000);
    });
    if (step % 10 == 0) job.barrier();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
