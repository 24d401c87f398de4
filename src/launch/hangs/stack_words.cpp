// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/stack_words.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>

namespace lockstep::launch {
namespace {

constexpr std::size_t kLongestName = 110;

using Frames = std::vector<StackFrame>;

template <std::size_t N>
bool begins_with_one_of(std::string_view text, const std::array<std::string_view, N>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](auto each) { return text.starts_with(each); });
}

// Returns true for a frame of a thread pool: a thread with this as its innermost frame has no work.
bool is_of_pool(const StackFrame& frame) {
  constexpr std::array<std::string_view, 3> kPools = {"libgomp", "libomp", "libpthreadpool"};
  return begins_with_one_of(frame.module, kPools);
}

// Returns true for innermost frames common to every wait, which do not reveal what the thread is waiting for.
bool is_of_runtime(const StackFrame& frame) {
  constexpr std::array<std::string_view, 5> kRuntime = {"libc.so", "libpthread.so", "libstdc++", "ld-linux", "[vdso"};
  return begins_with_one_of(frame.module, kRuntime) || is_of_pool(frame);
}

// Returns true for library frames between the program's own frames.
bool is_noise(const StackFrame& frame) {
  constexpr std::array<std::string_view, 8> kNoise = {
      "std::function<",         "lockstep_watch_call", "lockstep::fault::detail", "std::__invoke",
      "std::_Function_handler", "std::invoke",         "void std::__invoke",      "start_thread"};
  return begins_with_one_of(frame.function, kNoise) ||
         frame.function.find("lockstep::fault::in_section") != std::string::npos;
}

// Returns the frames without noise, and without the runtime's frames below main or a thread's first function.
Frames cut(const Frames& frames) {
  Frames kept;
  for (const StackFrame& frame : frames) {
    if (!is_noise(frame)) kept.push_back(frame);
    if (frame.function == "main") return kept;
  }
  while (kept.size() > 1 && (is_of_runtime(kept.back()) || kept.back().function == "_start")) kept.pop_back();
  return kept;
}

struct Group {
  const ThreadStack* first = nullptr;
  Frames frames;
  std::size_t size = 1;
  bool is_main = false;
  bool waits = false;
  bool is_inside = false;  ///< the thread is in a function of the program's own binary
};

bool waits(const ThreadStack& thread) {
  if (thread.frames.empty()) return false;
  if (is_of_pool(thread.frames.front()) || thread.state == 'S') return true;
  return thread.state != 'R' && is_of_runtime(thread.frames.front());
}

std::vector<Group> groups_of(const ProcessStacks& stacks) {
  std::vector<Group> groups;
  for (const ThreadStack& thread : stacks.threads) {
    Group group{
        .first = &thread, .frames = cut(thread.frames), .is_main = thread.thread == stacks.pid, .waits = waits(thread)};
    group.is_inside = std::any_of(group.frames.begin(), group.frames.end(), [&](const StackFrame& frame) {
      return frame.module == stacks.program || frame.function.starts_with("lockstep::");
    });
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return !other.is_main && !group.is_main && other.waits == group.waits && !group.frames.empty() &&
             other.frames == group.frames;
    });
    if (same == groups.end()) {
      groups.push_back(std::move(group));
    } else {
      ++same->size;
    }
  }
  return groups;
}

// Returns true for idle threads, which are only counted. Any other thread may be why the rank is late.
bool is_idle(const Group& group) { return !group.is_main && group.waits && (group.size > 1 || !group.is_inside); }

int order_of(const Group& group) {
  if (group.is_main) return 0;
  if (is_idle(group)) return 3;
  return group.is_inside ? 1 : 2;
}

// Shortens a function's name: long template arguments carry no information; std::string is the most common.
std::string shortened(std::string function) {
  constexpr std::string_view kString =
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  for (auto at = function.find(kString); at != std::string::npos; at = function.find(kString, at)) {
    function.replace(at, kString.size(), "std::string");
  }
  return function.size() > kLongestName ? function.substr(0, kLongestName) + "..." : function;
}

std::string shown_name(const StackFrame& frame) {
  return fmt::format("{}+{:#x}", frame.function.empty() ? "?" : shortened(frame.function), frame.offset);
}

void add_thread(std::vector<std::string>& lines, const Group& group, std::size_t most) {
  const ThreadStack& thread = *group.first;
  const std::string more = group.size > 1 ? fmt::format(", and {} more in the same place", group.size - 1) : "";
  lines.push_back(fmt::format("thread {}{}{}{}{}", thread.thread, thread.name.empty() ? "" : " ", thread.name,
                              group.is_main ? " (main)" : "", more));
  if (group.frames.empty()) {
    lines.push_back("  no frames: " + (thread.problem.empty() ? "unknown" : thread.problem));
    return;
  }
  for (std::size_t i = 0; i < group.frames.size() && i < most; ++i) {
    const StackFrame& frame = group.frames[i];
    const std::string module = frame.module.empty() ? "" : fmt::format(" ({})", frame.module);
    lines.push_back(fmt::format("  #{} {}{}", i, shown_name(frame), module));
  }
  if (group.frames.size() > most) lines.push_back(fmt::format("  {} more frames", group.frames.size() - most));
}

// Returns "6 more threads wait in pthread_cond_wait below c10::ThreadPool::main_loop(unsigned long)".
std::string count_line(const Group& group) {
  const auto named = [](const StackFrame& frame) { return !frame.function.empty(); };
  const auto is_of_user = [&](const StackFrame& frame) { return named(frame) && !is_of_runtime(frame); };
  const auto inner = std::find_if(group.frames.begin(), group.frames.end(), named);
  const auto outer = std::find_if(group.frames.begin(), group.frames.end(), is_of_user);
  std::string place;
  if (inner != group.frames.end()) place = " in " + shortened(inner->function);
  if (outer != group.frames.end() && outer != inner) {
    place += " below " + shortened(outer->function);
  } else if (outer == group.frames.end() && is_of_pool(group.frames.back())) {
    place += (place.empty() ? " in " : " below ") + group.frames.back().module;
  }
  return fmt::format("{} more thread{} wait{}{}", group.size, group.size == 1 ? "" : "s", group.size == 1 ? "s" : "",
                     place);
}

std::size_t threads_from(const std::vector<Group>& groups, std::size_t first) {
  std::size_t count = 0;
  for (std::size_t i = first; i < groups.size(); ++i) count += groups[i].size;
  return count;
}

}  // namespace

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : name;
}

std::vector<std::string> words_of(const ProcessStacks& stacks, const StackLimits& limits) {
  std::vector<Group> groups = groups_of(stacks);
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return order_of(a) < order_of(b); });
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    std::vector<std::string> next;
    if (is_idle(groups[i])) {
      next.push_back(count_line(groups[i]));
    } else {
      add_thread(next, groups[i], groups[i].is_main ? limits.main_frames : limits.other_frames);
    }
    if (lines.size() + next.size() > limits.lines - 1) {
      lines.push_back(fmt::format("{} more threads", threads_from(groups, i)));
      break;
    }
    lines.insert(lines.end(), next.begin(), next.end());
  }
  if (stacks.is_cut) lines.emplace_back("the remaining threads were not read: timed out");
  if (stacks.program.starts_with("python")) {
    lines.push_back(fmt::format("python frames: py-spy dump --pid {} (while it hangs)", stacks.pid));
  }
  return lines;
}

std::vector<StackFrame> parse_frames(std::string_view text) {
  std::vector<StackFrame> frames;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto number = line.find('#');
    const auto name = line.find(' ', number);
    const auto plus = line.find("+0x", name);
    const auto file = line.find(" (", plus);
    if (number == std::string_view::npos || name == std::string_view::npos || plus == std::string_view::npos ||
        file == std::string_view::npos || !line.ends_with(')')) {
      continue;
    }
    const std::string function(line.substr(name + 1, plus - name - 1));
    StackFrame frame{.function = function == "?" ? "" : demangled(function.c_str()),
                     .module = std::string(line.substr(file + 2, line.size() - file - 3))};
    std::from_chars(line.data() + plus + 3, line.data() + file, frame.offset, 16);
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace lockstep::launch
