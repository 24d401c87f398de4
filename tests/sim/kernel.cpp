// SPDX-License-Identifier: Apache-2.0
#include "sim/kernel.h"

#include <cxxabi.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "sim/files.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kStack = 256 << 10;
constexpr std::size_t kGuard = 4096;

/// The thread-local variables of a shared object.
struct ThreadLocals {
  char* at = nullptr;
  std::size_t size = 0;
  std::vector<char> initial;
};

// Returns true for libtorch and for the program itself, into which production code is linked.
bool has_own_threads(const dl_phdr_info& info) {
  const std::string_view name(info.dlpi_name);
  return name.empty() || name.find("libtorch") != std::string_view::npos ||
         name.find("libc10") != std::string_view::npos;
}

int find_thread_locals(dl_phdr_info* info, std::size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_TLS || info->dlpi_tls_data == nullptr || !has_own_threads(*info)) continue;
    ThreadLocals found{static_cast<char*>(info->dlpi_tls_data), header.p_memsz, std::vector<char>(header.p_memsz)};
    std::memcpy(found.initial.data(), reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr), header.p_filesz);
    static_cast<std::vector<ThreadLocals>*>(out)->push_back(std::move(found));
  }
  return 0;
}

const std::vector<ThreadLocals>& thread_locals() {
  static const std::vector<ThreadLocals> found = [] {
    std::vector<ThreadLocals> locals;
    ::dl_iterate_phdr(find_thread_locals, &locals);
    return locals;
  }();
  return found;
}

// Copies the thread-local variables of all shared objects into `to`, one after another.
void save_thread_locals(std::vector<char>& to) {
  char* kept = to.data();
  for (const ThreadLocals& one : thread_locals()) kept = std::copy_n(one.at, one.size, kept);
}

void load_thread_locals(const std::vector<char>& from) {
  const char* kept = from.data();
  for (const ThreadLocals& one : thread_locals()) {
    std::memcpy(one.at, kept, one.size);
    kept += one.size;
  }
}

void* make_stack() {
  void* at =
      ::mmap(nullptr, kStack + kGuard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED || ::mprotect(at, kGuard, PROT_NONE) != 0) std::abort();
  return static_cast<char*>(at) + kGuard;
}

}  // namespace

Kernel*& kernel() {
  static Kernel* instance = nullptr;  // initialized with a constant, so that it needs no guard
  return instance;
}

Kernel::Kernel(std::uint64_t seed) : dice_(seed) { (void)thread_locals(); }

void Kernel::at(Nanos time, std::function<void()> act) {
  const OfMachine not_of_process;
  alarms_.push({std::max(time, now_), alarms_made_++, std::move(act)});
}

void Kernel::run(Nanos limit, const std::function<bool()>& is_over) {
  while (now_ < limit && !is_over()) {
    if (!alarms_.empty() && (alarms_.top().time <= now_ || ready_.empty())) {
      const Alarm alarm = alarms_.top();
      alarms_.pop();
      if (alarm.time > limit) break;
      now_ = std::max(now_, alarm.time);
      alarm.act();
    } else if (!ready_.empty()) {
      const auto chosen = static_cast<std::size_t>(dice_.bits() % ready_.size());
      Fiber* fiber = ready_[chosen];
      ready_[chosen] = ready_.back();
      ready_.pop_back();
      if (fiber->state == Fiber::State::kReady && !fiber->process->is_frozen) run_fiber(*fiber);
    } else {
      break;
    }
  }
}

// swapcontext() would set the signal mask in every switch: two system calls.
void Kernel::switch_to(Fiber& fiber) {
  if (_setjmp(scheduler_) != 0) return;
  if (std::exchange(fiber.has_begun, true)) std::longjmp(fiber.place, 1);
  ::setcontext(&fiber.context);
}

void Kernel::run_fiber(Fiber& fiber) {
  if (fiber.process->slowness > 0 && dice_.chance(fiber.process->slowness)) {
    const Nanos until = now_ + dice_.between(kMilli, 400 * kMilli);
    at(until, [this, &fiber] {
      if (fiber.state == Fiber::State::kReady) ready_.push_back(&fiber);
    });
    return;
  }
  ++steps_;
  now_ += dice_.between(500, 5000);
  count_turn(*fiber.process);
  fold(static_cast<std::uint64_t>(fiber.process->pid) + static_cast<std::uint64_t>(now_));
  enter(fiber);
  current_ = &fiber;
  switch_to(fiber);
  current_ = nullptr;
  fiber.saved_errno = errno;
  look_at_use(*fiber.process);
  if (fiber.state == Fiber::State::kDone) give_back_stack(fiber);
}

void Kernel::look_at_use(Process& process) {
  process.most.raise_to(process.use);
  if (!process.is_dead && !process.use.is_within(process.limit) && on_excess) on_excess(process);
}

void* Kernel::take_stack() {
  if (free_stacks_.empty()) return make_stack();
  void* stack = free_stacks_.back();
  free_stacks_.pop_back();
  return stack;
}

void Kernel::give_back_stack(Fiber& fiber) {
  if (fiber.stack != nullptr) free_stacks_.push_back(std::exchange(fiber.stack, nullptr));
}

void Kernel::count_turn(Process& process) {
  if (now_ - process.second_began > kSecond) {
    process.second_began = now_;
    process.turns = 0;
  }
  if (++process.turns == most_turns && on_spin) on_spin(process);
}

void Kernel::swap_globals(Process& process) {
  if (in_place_ == &process) return;
  const auto copy = [this](std::vector<char>& to, bool out) {
    std::size_t offset = 0;
    for (const Global& global : globals_) {
      char* kept = to.data() + offset;
      std::memcpy(out ? kept : static_cast<char*>(global.at), out ? static_cast<char*>(global.at) : kept, global.size);
      offset += global.size;
    }
  };
  if (in_place_ != nullptr) copy(in_place_->globals, true);
  copy(process.globals, false);
  in_place_ = &process;
}

void Kernel::enter(Fiber& fiber) {
  swap_globals(*fiber.process);
  if (loaded_ != &fiber) {
    if (loaded_ != nullptr) {
      save_thread_locals(loaded_->thread_locals);
      std::memcpy(loaded_->exceptions, abi::__cxa_get_globals(), sizeof loaded_->exceptions);
    }
    load_thread_locals(fiber.thread_locals);
    std::memcpy(static_cast<void*>(abi::__cxa_get_globals()), fiber.exceptions, sizeof fiber.exceptions);
    loaded_ = &fiber;
  }
  errno = fiber.saved_errno;
}

void Kernel::leave_fiber() {
  Fiber& fiber = *current_;
  fiber.saved_errno = errno;
  if (_setjmp(fiber.place) == 0) std::longjmp(scheduler_, 1);
  errno = fiber.saved_errno;
}

void Kernel::trampoline() {
  Kernel& self = *kernel();
  self.current_->body();
  self.end_fiber();
}

Fiber* Kernel::start(Process& process, std::function<void()> body) {
  const OfMachine not_of_process;
  ++process.use.threads;
  auto made = std::make_unique<Fiber>();
  Fiber* fiber = made.get();
  fiber->process = &process;
  fiber->body = std::move(body);
  for (const ThreadLocals& one : thread_locals()) {
    fiber->thread_locals.insert(fiber->thread_locals.end(), one.initial.begin(), one.initial.end());
  }
  fiber->stack = take_stack();
  ::getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = kStack;
  fiber->context.uc_link = nullptr;
  ::makecontext(&fiber->context, &Kernel::trampoline, 0);
  process.fibers.push_back(std::move(made));
  ready_.push_back(fiber);
  return fiber;
}

bool Kernel::block(Nanos deadline) {
  Fiber& fiber = *current_;
  if (deadline <= now_) {
    yield();
    return false;
  }
  fiber.state = Fiber::State::kBlocked;
  fiber.was_woken = false;
  const std::uint64_t wait = ++fiber.waits;
  if (deadline != kNever) {
    at(deadline, [this, &fiber, wait] {
      if (fiber.state != Fiber::State::kBlocked || fiber.waits != wait) return;
      fiber.state = Fiber::State::kReady;
      ready_.push_back(&fiber);
    });
  }
  leave_fiber();
  return fiber.was_woken;
}

void Kernel::wake(Fiber& fiber) {
  if (fiber.state != Fiber::State::kBlocked) return;
  fiber.state = Fiber::State::kReady;
  fiber.was_woken = true;
  ready_.push_back(&fiber);
}

void Kernel::yield() {
  ready_.push_back(current_);
  leave_fiber();
}

void Kernel::maybe_yield() {
  if (current_ != nullptr && current_->mutexes == 0 && dice_.chance(0.05)) yield();
}

void Kernel::end_fiber() {
  Fiber& fiber = *current_;
  fiber.state = Fiber::State::kDone;
  --fiber.process->use.threads;
  if (fiber.joiner != nullptr) wake(*fiber.joiner);
  leave_fiber();
  std::abort();
}

Host& Kernel::add_host(const std::string& name) {
  auto host = std::make_unique<Host>();
  host->number = static_cast<int>(hosts_.size());
  host->name = name;
  host->address = 0x0a000001U + static_cast<std::uint32_t>(hosts_.size());
  hosts_.push_back(std::move(host));
  return *hosts_.back();
}

Process& Kernel::spawn(Host& host, const std::string& name, const std::map<std::string, std::string>& environment) {
  const OfMachine not_of_process;
  auto process = std::make_unique<Process>();
  process->pid = process->number = next_pid_++;
  process->host = &host;
  process->name = name;
  process->environment = environment;
  for (const Global& global : globals_) {
    process->globals.insert(process->globals.end(), global.initial.begin(), global.initial.end());
  }
  processes_.push_back(std::move(process));
  return *processes_.back();
}

void Kernel::end_process(Process& process, int status) {
  if (process.is_dead) return;
  process.is_dead = true;
  for (const auto& fiber : process.fibers) {
    fiber->state = Fiber::State::kDone;
    if (fiber.get() != current_) give_back_stack(*fiber);
  }
  files().close_all_of(process);
  if (process.on_end) process.on_end(status);
  if (current_ != nullptr && current_->process == &process) leave_fiber();
}

Process* Kernel::find(int pid) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& process) { return process->pid == pid && !process->is_dead; });
  return found == processes_.end() ? nullptr : found->get();
}

void Kernel::freeze(Process& process, bool on) {
  process.is_frozen = on;
  if (on) return;
  for (const auto& fiber : process.fibers) {
    const bool waits_for_turn = std::find(ready_.begin(), ready_.end(), fiber.get()) != ready_.end();
    if (fiber->state == Fiber::State::kReady && !waits_for_turn) ready_.push_back(fiber.get());
  }
}

void Kernel::note_random(std::string_view bytes) {
  const OfMachine not_of_process;
  std::string digits;
  for (const char byte : bytes.substr(0, kNotedDigits / 2)) {
    for (const int nibble : {static_cast<unsigned char>(byte) >> 4, byte & 15}) digits += "0123456789abcdef"[nibble];
  }
  current_->process->drawn.insert(std::move(digits));
}

void Kernel::print(Process& process, std::string_view text) {
  for (const char letter : text) {
    if (letter != '\n') {
      process.line += letter;
      continue;
    }
    const std::string line = std::exchange(process.line, {});
    if (on_line) on_line(process, line);
  }
}

void Kernel::add_global(void* at, std::size_t size) {
  globals_.push_back({at, size, {static_cast<char*>(at), static_cast<char*>(at) + size}});
}

}  // namespace lockstep::sim
