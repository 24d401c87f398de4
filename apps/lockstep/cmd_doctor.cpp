// SPDX-License-Identifier: Apache-2.0
// `lockstep doctor`: finds what is wrong with a run, this machine, or the links between the hosts of a job.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "common/cli.h"
#include "common/summaries.h"
#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/gpu_devices.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/doctor/all_reduce.h"
#include "lockstep/doctor/worker_libraries.h"
#include "lockstep/launch/doctor.h"
#include "lockstep/view/machine_check.h"
#include "lockstep/view/run_diagnosis.h"
#include "lockstep/view/terminal.h"
#include "verbs.h"
#include "worker_verbs.h"

namespace lockstep::apps {
namespace {

struct DoctorOptions {
  std::string run;
  bool is_fast = false;
  bool json = false;
};

cli::CommandText doctor_help() {
  return {.name = "lockstep doctor",
          .description =
              "Check this machine, or say in one line whether a run is fine, hangs or failed, and why.\n\nWithout "
              "RUN_DIR, the command checks cores, memory, limits, network, clock, GPUs and this folder's disk, and "
              "measures an all-reduce, all in at most ten seconds. When lockstep run starts it on several hosts, it "
              "measures round trips and bandwidth between them.",
          .examples = {"lockstep doctor", "lockstep doctor runs/digits", "lockstep doctor 4711",
                       "lockstep run --hosts gpu-a,gpu-b --nproc-per-node 1 -- lockstep doctor",
                       "lockstep doctor kernels captcha:conv3 --amp bf16"},
          .lists = {{"Verbs", {{"kernels", cli::kKernelsSummary}}}},
          .tables = {{"Exit code",
                      {{"0", "no problem was found, or the state of a run was reported, healthy or not"},
                       {"65", "there is no such run, or no such process"},
                       {"69", "a problem that would make a run fail was found, or a host cannot reach another"}}}}};
}

/// Prints `text`, which has no control characters except colours.
void print_clean(const std::string& text) { print_to(stdout, "{}", text); }

int say_of_run(const DoctorOptions& options) {
  const view::RunFacts facts = read_run(options.run);
  const view::RunDiagnosis diagnosis = view::diagnose(facts);
  if (options.json) {
    cli::print_json(view::diagnosis_json(facts, diagnosis));
  } else {
    print_clean(view::diagnosis_text(diagnosis, view::use_color(STDOUT_FILENO)));
  }
  return 0;
}

bool is_process(const std::string& word) {
  const bool is_number = !word.empty() && word.size() <= 9 && word.find_first_not_of("0123456789") == std::string::npos;
  return is_number && !FileSystem::system().exists(word);
}

std::string processes_json(const std::vector<ProcessReport>& processes) {
  std::vector<std::string> objects;
  for (const ProcessReport& process : processes) {
    std::vector<std::string> stacks;
    for (const std::string& line : process.stacks) stacks.push_back(text::json_quote(line));
    objects.push_back(fmt::format(R"({{"pid": {}, "program": {}, "text": {}, "stacks": [{}]}})", process.pid,
                                  text::json_quote(process.program), text::json_quote(process.text),
                                  text::join(stacks)));
  }
  return fmt::format("{{\"processes\": [{}]}}\n", text::join(objects));
}

/// Reports on a process of a program that does not use Lockstep: its ranks have no run folder with more facts.
int say_of_process(const DoctorOptions& options) {
  const std::vector<ProcessReport> processes =
      read_processes(static_cast<int>(whole_number("PID", options.run, {1, 999999999})));
  if (options.json) {
    cli::print_json(processes_json(processes));
    return 0;
  }
  for (const ProcessReport& process : processes) {
    cli::print(process.text + "\n");
    for (const std::string& line : process.stacks) cli::print("  " + line + "\n");
    const std::string dump = fmt::format("py-spy dump --pid {}   # shows Python's own frames", process.pid);
    if (process.program.starts_with("python")) print_clean(fmt::format("  next  {}\n", dump));
  }
  return 0;
}

/// Prints the checks that are already known, before further measurements.
bool say_checks(const view::MachineFacts& facts, bool json) {
  const std::vector<view::Check> checks = view::check_machine(facts);
  if (json) {
    cli::print_json(view::checks_json(checks));
  } else {
    print_clean(view::checks_text(checks, view::terminal_width(STDOUT_FILENO), view::use_color(STDOUT_FILENO)));
  }
  std::fflush(stdout);
  return view::is_any_bad(checks);
}

int check_this_machine(const DoctorOptions& options) {
  bool is_bad = say_checks(read_machine({.measures_disk = !options.is_fast,
                                         .nccl = count_gpu_devices() > 0 ? search_of_worker() : nccl::Search{}}),
                           options.json);
  if (!options.is_fast) is_bad = say_checks({.all_reduce = measure_all_reduce()}, options.json) || is_bad;
  return static_cast<int>(is_bad ? ExitCode::kResource : ExitCode::kDone);
}

/// Runs on the ranks of a job: the first rank of each host measures, and rank 0 prints.
int check_links(const DoctorOptions& options) {
  const auto facts = measure_links();
  if (!facts) return 0;
  if (options.json) {
    cli::print_json(view::links_json(*facts));
  } else {
    print_clean(view::links_text(*facts));
  }
  return static_cast<int>(view::is_any_link_broken(*facts) ? ExitCode::kResource : ExitCode::kDone);
}

}  // namespace

int cmd_doctor(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "kernels") return cmd_worker(argc - 1, argv + 1);
  DoctorOptions options;
  CLI::App app;
  cli::prepare(app, doctor_help());
  app.add_option(
      "RUN_DIR", options.run,
      "a run folder, a log folder printed by lockstep run, or the PID of a process on this host, to show its stacks");
  app.add_flag("--fast", options.is_fast, "skip the disk and all-reduce measurements");
  app.add_flag("--json", options.json, "print JSON: one object per check, or one for the run");
  if (!cli::parse(app, {argv + 1, argv + argc})) return 0;
  if (is_process(options.run)) return say_of_process(options);
  if (!options.run.empty()) return say_of_run(options);
  return env::get("LOCKSTEP_STORE") ? check_links(options) : check_this_machine(options);
}

}  // namespace lockstep::apps
