// SPDX-License-Identifier: Apache-2.0
#include "observe/thread_calls.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <optional>

namespace lockstep::observe {
namespace {

std::optional<std::string> name_of(std::int64_t id) {
  std::ifstream file(fmt::format("/proc/self/task/{}/comm", id));
  std::string name;
  if (!std::getline(file, name)) return std::nullopt;
  return name;
}

}  // namespace

ThreadCalls::ThreadCalls() : id_(::gettid()), name_(name_of(id_).value_or("thread")) {}

void ThreadCalls::add(RecordedCall call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
}

std::vector<RecordedCall> ThreadCalls::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(calls_, {});
}

void ThreadCalls::add(view::MemoryEvent event) {
  const std::lock_guard lock(mutex_);
  memory_.push_back(event);
}

std::vector<view::MemoryEvent> ThreadCalls::take_memory() {
  const std::lock_guard lock(mutex_);
  return std::exchange(memory_, {});
}

view::ProfiledThread ThreadCalls::about() const { return {.name = name_of(id_).value_or(name_), .id = id_}; }

}  // namespace lockstep::observe
