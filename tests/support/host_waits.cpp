// SPDX-License-Identifier: Apache-2.0
#include "support/host_waits.h"

#ifdef LOCKSTEP_MAKE_BELIEVE_GPUS

#include <c10/util/Backtrace.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "support/double/device.h"
#include "support/host_log.h"

namespace lockstep::testing {
namespace {

struct Log {
  std::mutex mutex;
  bool counts = false;
  std::vector<std::string>* wanted = nullptr;  ///< list for waits_of()
  std::vector<std::string> waits = {};
  std::map<std::string, int> calls = {};
};

Log& log() {
  static auto* const kept = new Log;
  return *kept;
}

const bool kRegistered = make_believe::register_gpus();

}  // namespace

void note_wait(const std::string& what) {
  const std::lock_guard lock(log().mutex);
  if (log().wanted != nullptr) log().wanted->push_back(what);
  if (!log().counts) return;
  log().waits.push_back(what);
  static const bool trace = std::getenv("LOCKSTEP_TRACE_WAITS") != nullptr;
  if (trace) std::fprintf(stderr, "wait: %s\n%s\n", what.c_str(), c10::get_backtrace(0, 90, true).c_str());
}

void note_call(const std::string& name) {
  const std::lock_guard lock(log().mutex);
  if (log().counts) ++log().calls[name];
}

std::vector<std::string> waits_of(const std::function<void()>& work) {
  std::vector<std::string> found;
  const auto watch = [](std::vector<std::string>* wanted) {
    const std::lock_guard lock(log().mutex);
    log().wanted = wanted;
  };
  watch(&found);
  try {
    work();
  } catch (...) {
    watch(nullptr);
    throw;
  }
  watch(nullptr);
  return found;
}

c10::Device make_believe_gpu() { return {c10::kCUDA, 0}; }

std::string why_no_make_believe_gpu() { return kRegistered ? "" : "this libtorch has a CUDA of its own"; }

HostWaits::HostWaits() {
  const std::lock_guard lock(log().mutex);
  log().waits.clear();
  log().calls.clear();
  log().counts = true;
}

HostWaits::~HostWaits() {
  const std::lock_guard lock(log().mutex);
  log().counts = false;
}

std::vector<std::string> HostWaits::found() {
  const std::lock_guard lock(log().mutex);
  return log().waits;
}

int HostWaits::calls(const std::string& name) {
  const std::lock_guard lock(log().mutex);
  const auto found = log().calls.find(name);
  return found == log().calls.end() ? 0 : found->second;
}

}  // namespace lockstep::testing

#else

namespace lockstep::testing {

c10::Device make_believe_gpu() { return c10::kCPU; }
std::string why_no_make_believe_gpu() { return "simulated GPUs need the interfaces of a libtorch 1.13 without CUDA"; }
HostWaits::HostWaits() = default;
HostWaits::~HostWaits() = default;
std::vector<std::string> HostWaits::found() { return {}; }
int HostWaits::calls(const std::string& /*name*/) { return 0; }

}  // namespace lockstep::testing

#endif
