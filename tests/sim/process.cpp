// SPDX-License-Identifier: Apache-2.0
#include "sim/process.h"

#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "sim/kernel.h"

namespace lockstep::sim {
namespace {

constexpr unsigned kLongest = 120;  // seconds of real time

ssize_t write_line(void*, const char* text, std::size_t size) {
  Kernel* machine = kernel();
  if (machine != nullptr && machine->current() != nullptr) machine->print(*machine->current()->process, {text, size});
  return static_cast<ssize_t>(size);
}

// Sends the output of production code to the world's history.
void take_output() {
  for (FILE** stream : {&stderr, &stdout}) {
    *stream = ::fopencookie(nullptr, "w", {.read = nullptr, .write = write_line, .seek = nullptr, .close = nullptr});
    ::setvbuf(*stream, nullptr, _IONBF, 0);
  }
}

// Handles an uncaught exception.
[[noreturn]] void end_world() {
  std::string what = "no exception";
  try {
    if (const auto problem = std::current_exception()) std::rethrow_exception(problem);
  } catch (const std::exception& problem) {
    what = problem.what();
  } catch (...) {
    what = "an exception";
  }
  if (kernel() != nullptr) kernel()->on_wrong("a thread ends its process: " + what);
  ::_exit(1);
}

}  // namespace

int run_alone(const std::function<void()>& world) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kLongest);  // SIGALRM kills the process
    take_output();
    std::set_terminate(end_world);
    world();
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) continue;
  return status;
}

void fix_addresses(char** argv) {
  if ((::personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0 && ::personality(ADDR_NO_RANDOMIZE) >= 0) {
    ::execv("/proc/self/exe", argv);
  }
}

}  // namespace lockstep::sim
