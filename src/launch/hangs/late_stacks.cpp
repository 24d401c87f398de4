// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/late_stacks.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <system_error>

#include "launch/hangs/self_report.h"
#include "launch/hangs/stack_reader.h"
#include "launch/hangs/stack_words.h"
#include "lockstep/base/env.h"

namespace lockstep::launch {
namespace {

// The two time limits add up to 2 s. If the system refuses access, it does so immediately.
constexpr auto kOutside = std::chrono::milliseconds(1500);
constexpr auto kInside = std::chrono::milliseconds(500);

bool is_forbidden(int problem) { return problem == EPERM || problem == EACCES; }

// Returns what keeps the process from running; empty if it can run.
const char* obstacle_of(char state) {
  switch (state) {
    case 'T':
      return "it is stopped";
    case 't':
      return "a debugger is holding it";
    case 'D':
      return "it is in uninterruptible sleep";
    default:
      return "";
  }
}

std::vector<std::string> from_inside(const LateProcess& late, const StackSources& sources) {
  const std::string refused = "ptrace is not permitted here";
  const std::string kept = obstacle_of(late.state);
  if (!kept.empty()) return {fmt::format("none: {}, and the rank cannot write its own: {}", refused, kept)};
  const SelfReport report = sources.inside(late);
  if (report.frames.empty()) {
    return {fmt::format("none: {}, and the rank did not write its own: {}", refused, report.problem)};
  }
  std::vector<std::string> lines{
      fmt::format("{}, so this is the stack written by the rank itself, for only one thread", refused)};
  const ProcessStacks one{.pid = late.pid, .threads = {{.thread = late.pid, .frames = report.frames}}};
  for (std::string& line : words_of(one)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

StackSources system_sources() {
  return {.outside = [](pid_t pid) { return read_stacks(pid, kOutside); },
          .inside = [](const LateProcess& late) { return ask_for_stack(late.pid, late.stack_file, kInside); }};
}

std::vector<std::string> stacks_of(const LateProcess& late, const StackSources& sources) {
  const ProcessStacks outside = sources.outside(late.pid);
  if (is_forbidden(outside.refusal)) return from_inside(late, sources);
  if (outside.refusal != 0) return {"none: " + std::generic_category().message(outside.refusal)};
  if (outside.threads.empty()) return {"none: reading them timed out"};
  return words_of(outside);
}

bool wants_stacks() { return env::get("LOCKSTEP_STACKS").value_or("") != "off"; }

}  // namespace lockstep::launch
