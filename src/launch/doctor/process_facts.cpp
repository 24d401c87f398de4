// SPDX-License-Identifier: Apache-2.0
// Reads, from outside, the activity of a process that may not use Lockstep.
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>

#include "launch/hangs/process_state.h"
#include "launch/hangs/process_tree.h"
#include "launch/hangs/stack_reader.h"
#include "launch/hangs/stack_words.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/doctor.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostProcesses = 8;

const char* words_of_state(char state) {
  switch (state) {
    case 'R':
      return "computes";
    case 'S':
      return "sleeps";
    case 'D':
      return "is waiting for a device in the kernel";
    case 'T':
      return "is stopped by a signal";
    case 't':
      return "is held by a debugger";
    default:
      return "has ended";
  }
}

std::vector<std::string> stacks_of(int pid) {
  constexpr auto kTime = std::chrono::milliseconds(1500);
  const launch::ProcessStacks stacks = launch::read_stacks(pid, kTime);
  if (stacks.refusal == EPERM || stacks.refusal == EACCES) {
    return {"no stacks: ptrace is not permitted here; use root, or a container with --cap-add=SYS_PTRACE"};
  }
  if (stacks.refusal != 0) return {"no stacks: " + std::generic_category().message(stacks.refusal)};
  return stacks.threads.empty() ? std::vector<std::string>{"no stacks: reading them timed out"}
                                : launch::words_of(stacks);
}

ProcessReport report_of(int pid, const flight::ProcessState& process) {
  std::error_code problem;
  const std::string program = fs::read_symlink(fmt::format("/proc/{}/exe", pid), problem).filename().string();
  std::string text = fmt::format("process {}{} {}", pid, program.empty() ? "" : fmt::format(" ({})", program),
                                 words_of_state(process.state));
  if (!process.waits_in.empty()) text += fmt::format(" in {}", process.waits_in);
  text += fmt::format(", {} of memory", text::bytes(process.resident));
  ProcessReport report{.pid = pid, .program = program, .text = text};
  if (!process.has_ended) report.stacks = stacks_of(pid);
  return report;
}

}  // namespace

std::vector<ProcessReport> read_processes(int pid) {
  const auto first = launch::read_process(pid);
  if (!first) {
    throw DataError(fmt::format("there is no process {} on this host", pid),
                    "run the command on the rank's host; ps -ef lists the processes");
  }
  std::vector<ProcessReport> reports = {report_of(pid, *first)};
  launch::ProcessTree tree;
  if (!tree.read(pid)) return reports;
  for (std::size_t i = 0; i < tree.size() && reports.size() < kMostProcesses; ++i) {
    if (!tree[i].is_descendant) continue;
    if (const auto process = launch::read_process(tree[i].pid)) reports.push_back(report_of(tree[i].pid, *process));
  }
  return reports;
}

}  // namespace lockstep
