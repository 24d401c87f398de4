// SPDX-License-Identifier: Apache-2.0
// The program's operator new: it tracks the heap usage of each simulated process.
#include "sim/memory.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "sim/kernel.h"

namespace lockstep::sim {
namespace {

bool is_of_machine = false;

/// Precedes each allocated block.
struct alignas(16) Header {
  Process* owner;
  std::int64_t size;
};

void* take(std::size_t size) {
  auto* header = static_cast<Header*>(std::malloc(sizeof(Header) + size));
  if (header == nullptr) return nullptr;
  const Kernel* machine = is_of_machine ? nullptr : kernel();
  *header = {machine != nullptr && machine->current() != nullptr ? machine->current()->process : nullptr,
             static_cast<std::int64_t>(size)};
  if (header->owner != nullptr) header->owner->use.heap += header->size;
  return header + 1;
}

void give(void* at) {
  if (at == nullptr) return;
  auto* header = static_cast<Header*>(at) - 1;
  // The owner is still there: processes live as long as the machine.
  if (header->owner != nullptr && kernel() != nullptr) header->owner->use.heap -= header->size;
  std::free(header);
}

}  // namespace

void Use::raise_to(const Use& other) {
  heap = std::max(heap, other.heap);
  descriptors = std::max(descriptors, other.descriptors);
  threads = std::max(threads, other.threads);
}

bool Use::is_within(const Use& limit) const {
  return heap <= limit.heap && descriptors <= limit.descriptors && threads <= limit.threads;
}

Use Use::share_of(const Use& limit) const {
  return {100 * heap / limit.heap, 100 * descriptors / limit.descriptors, 100 * threads / limit.threads};
}

OfMachine::OfMachine() : before_(std::exchange(is_of_machine, true)) {}
OfMachine::~OfMachine() { is_of_machine = before_; }

}  // namespace lockstep::sim

#pragma GCC visibility push(default)

void* operator new(std::size_t size) {
  void* block = lockstep::sim::take(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return lockstep::sim::take(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return lockstep::sim::take(size); }
void operator delete(void* at) noexcept { lockstep::sim::give(at); }
void operator delete[](void* at) noexcept { lockstep::sim::give(at); }
void operator delete(void* at, std::size_t) noexcept { lockstep::sim::give(at); }
void operator delete[](void* at, std::size_t) noexcept { lockstep::sim::give(at); }
void operator delete(void* at, const std::nothrow_t&) noexcept { lockstep::sim::give(at); }
void operator delete[](void* at, const std::nothrow_t&) noexcept { lockstep::sim::give(at); }

#pragma GCC visibility pop
