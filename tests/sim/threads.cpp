// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's threads, mutexes and condition variables for production code inside a world: the dynamic
// linker prefers this program's symbols to the library's. Outside a world there is only one thread, and every mutex is
// free.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "sim/calls.h"
#include "sim/clocks.h"
#include "sim/kernel.h"

namespace lockstep::sim {
namespace {

using Waiters = std::unordered_map<const void*, std::vector<Fiber*>>;

Waiters& waiters() {
  static Waiters all;
  return all;
}

// The first fields of the library's own type, which start out as zeros.
struct Lock {
  int count;
  unsigned unused;
  int owner;
  unsigned users;
  int kind;
};

Lock& lock_of(pthread_mutex_t* mutex) { return *reinterpret_cast<Lock*>(mutex); }

int id_of(const Fiber* fiber) {
  return fiber == nullptr ? 1 : static_cast<int>(reinterpret_cast<std::uintptr_t>(fiber) >> 4U) | 2;
}

void wake_all(const void* at) {
  const auto found = waiters().find(at);
  if (found == waiters().end()) return;
  for (Fiber* fiber : found->second) kernel()->wake(*fiber);
  waiters().erase(found);
}

void forget(const void* at, Fiber* fiber) {
  const auto found = waiters().find(at);
  if (found == waiters().end()) return;
  std::erase(found->second, fiber);
  if (found->second.empty()) waiters().erase(found);
}

bool wait_at(const void* at, Nanos deadline) {
  Fiber* fiber = kernel()->current();
  waiters()[at].push_back(fiber);
  const bool was_woken = kernel()->block(deadline);
  forget(at, fiber);
  return was_woken;
}

int take(pthread_mutex_t* mutex, bool may_wait, Nanos deadline = kNever) {
  Fiber* self = kernel() != nullptr ? kernel()->current() : nullptr;
  Lock& lock = lock_of(mutex);
  if (self != nullptr && may_wait) kernel()->maybe_yield();
  if (lock.count > 0 && lock.owner == id_of(self) && (lock.kind & 3) == PTHREAD_MUTEX_RECURSIVE) {
    ++lock.count;
    return 0;
  }
  while (lock.count > 0) {
    if (self == nullptr) std::abort();
    if (!may_wait) return EBUSY;
    if (!wait_at(mutex, deadline) && kernel()->now() >= deadline) return ETIMEDOUT;
  }
  lock.count = 1;
  lock.owner = id_of(self);
  if (self != nullptr) ++self->mutexes;
  return 0;
}

int release(pthread_mutex_t* mutex) {
  Lock& lock = lock_of(mutex);
  if (--lock.count > 0) return 0;
  Fiber* self = kernel() != nullptr ? kernel()->current() : nullptr;
  lock.owner = 0;
  if (self != nullptr) --self->mutexes;
  if (self != nullptr) wake_all(mutex);
  return 0;
}

int wait_for(pthread_cond_t* condition, pthread_mutex_t* mutex, Nanos deadline) {
  Kernel& machine = *kernel();
  if (machine.dice().chance(0.002)) deadline = std::min(deadline, machine.now() + kMilli);  // a spurious wake-up
  const Nanos wanted = deadline;
  release(mutex);
  const bool was_woken = wait_at(condition, deadline);
  take(mutex, true);
  return was_woken || wanted != deadline ? 0 : ETIMEDOUT;
}

}  // namespace
}  // namespace lockstep::sim

using namespace lockstep::sim;  // NOLINT(google-build-using-namespace): the file is the C library's threads

#pragma GCC visibility push(default)
extern "C" {

// Threads outside a world are the system's, such as one that UCX starts when it is loaded and joins when the program
// ends.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  static const auto system = real<decltype(pthread_create)>("pthread_create");
  if (!is_inside()) return system(thread, attributes, body, argument);
  Fiber* made = nullptr;
  Kernel& machine = *kernel();
  made = machine.start(*machine.current()->process, [body, argument] {
    void* result = body(argument);
    kernel()->current()->result = result;
  });
  *thread = reinterpret_cast<pthread_t>(made);
  machine.maybe_yield();
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  static const auto system = real<decltype(pthread_join)>("pthread_join");
  if (!is_inside()) return system(thread, result);
  auto* fiber = reinterpret_cast<Fiber*>(thread);
  while (fiber->state != Fiber::State::kDone) {
    fiber->joiner = kernel()->current();
    kernel()->block(kNever);
  }
  if (result != nullptr) *result = fiber->result;
  return 0;
}

int pthread_detach(pthread_t thread) {
  static const auto system = real<decltype(pthread_detach)>("pthread_detach");
  return is_inside() ? 0 : system(thread);
}

int pthread_setname_np(pthread_t, const char*) { return 0; }
int pthread_sigmask(int, const sigset_t*, sigset_t* before) {
  if (before != nullptr) ::sigemptyset(before);
  return 0;
}

pthread_t pthread_self() {
  static const auto system = real<decltype(pthread_self)>("pthread_self");
  return is_inside() ? reinterpret_cast<pthread_t>(kernel()->current()) : system();
}

int pthread_mutex_init(pthread_mutex_t* mutex, const pthread_mutexattr_t* attributes) {
  int kind = 0;
  if (attributes != nullptr) ::pthread_mutexattr_gettype(attributes, &kind);
  *mutex = pthread_mutex_t{};
  lock_of(mutex).kind = kind;
  return 0;
}
int pthread_mutex_destroy(pthread_mutex_t*) { return 0; }
int pthread_mutex_lock(pthread_mutex_t* mutex) { return take(mutex, true); }
int pthread_mutex_trylock(pthread_mutex_t* mutex) { return take(mutex, false); }
int pthread_mutex_unlock(pthread_mutex_t* mutex) { return release(mutex); }

int pthread_cond_init(pthread_cond_t* condition, const pthread_condattr_t*) {
  *condition = pthread_cond_t{};
  return 0;
}
int pthread_cond_destroy(pthread_cond_t*) { return 0; }
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) { return wait_for(condition, mutex, kNever); }
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* end) {
  return wait_for(condition, mutex, moment_of(clock, *end));
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* end) {
  return wait_for(condition, mutex, moment_of(CLOCK_REALTIME, *end));
}
int pthread_cond_broadcast(pthread_cond_t* condition) {
  if (kernel() != nullptr) wake_all(condition);
  return 0;
}
int pthread_cond_signal(pthread_cond_t* condition) {
  if (kernel() == nullptr) return 0;
  const auto found = waiters().find(condition);
  if (found == waiters().end()) return 0;
  const auto chosen = static_cast<std::ptrdiff_t>(kernel()->dice().bits() % found->second.size());
  Fiber* fiber = found->second[static_cast<std::size_t>(chosen)];
  found->second.erase(found->second.begin() + chosen);
  if (found->second.empty()) waiters().erase(found);
  kernel()->wake(*fiber);
  return 0;
}

// A thread does not lose the processor while it initializes a static variable: the runtime cannot distinguish simulated
// threads, so the next thread that needs the variable would appear to initialize it recursively.
int guard_acquire(void* guard) asm("__cxa_guard_acquire");
void guard_release(void* guard) noexcept asm("__cxa_guard_release");

int guard_acquire(void* guard) {
  static int (*library)(void*) = nullptr;  // needs no guard itself
  if (library == nullptr) library = reinterpret_cast<int (*)(void*)>(::dlsym(RTLD_NEXT, "__cxa_guard_acquire"));
  const int is_first = library(guard);
  if (is_first != 0 && kernel() != nullptr && kernel()->current() != nullptr) ++kernel()->current()->mutexes;
  return is_first;
}

void guard_release(void* guard) noexcept {
  static void (*library)(void*) = nullptr;
  if (library == nullptr) library = reinterpret_cast<void (*)(void*)>(::dlsym(RTLD_NEXT, "__cxa_guard_release"));
  library(guard);
  if (kernel() != nullptr && kernel()->current() != nullptr) --kernel()->current()->mutexes;
}

int sched_yield() {
  if (kernel() != nullptr && kernel()->current() != nullptr) kernel()->yield();
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
