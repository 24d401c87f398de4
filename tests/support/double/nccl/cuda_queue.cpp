// SPDX-License-Identifier: Apache-2.0
// The queue for a real GPU: the stream copies its memory to the host, a host function exchanges the data with the
// peers, and the stream copies the results back. All three can be recorded into a CUDA graph. The CUDA runtime is
// looked up in the process, so this file does not need its headers.
//
// A host function holds its stream until its peers arrive. CUDA may call host functions one after another, so two
// communicators of a rank must not wait for each other's peers.
#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "order.h"
#include "queue.h"

namespace lockstep::testing::nccl_double {
namespace {

/// The functions of the CUDA runtime that this file calls, with their signatures since CUDA 10.
struct Runtime {
  int (*copy)(void* to, const void* from, std::size_t bytes, int kind, nccl::Stream stream) = nullptr;
  int (*call)(nccl::Stream stream, void (*function)(void*), void* argument) = nullptr;
  int (*allocate)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  int (*is_capturing)(nccl::Stream stream, int* status) = nullptr;
};
constexpr int kAnyDirection = 4;   // cudaMemcpyDefault
constexpr unsigned kPortable = 1;  // cudaHostAllocPortable

template <class Function>
void find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) end_for(std::string("the process has no CUDA runtime with ") + name);
}

const Runtime& runtime() {
  static const Runtime runtime = [] {
    Runtime found;
    find("cudaMemcpyAsync", found.copy);
    find("cudaLaunchHostFunc", found.call);
    find("cudaHostAlloc", found.allocate);
    find("cudaStreamIsCapturing", found.is_capturing);
    return found;
  }();
  return runtime;
}

void require(int error, const char* call) {
  if (error != 0) end_for(std::string(call) + " failed with error " + std::to_string(error) + " of CUDA");
}

/// Pinned host memory. Host functions return it and must not call CUDA, so it is kept for reuse.
class PinnedMemory {
 public:
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = free_.lower_bound(bytes);
      if (found != free_.end() && found->first <= 2 * bytes) {
        std::byte* memory = found->second;
        used_[memory] = found->first;
        free_.erase(found);
        return memory;
      }
    }
    void* memory = nullptr;
    require(runtime().allocate(&memory, bytes, kPortable), "cudaHostAlloc");
    const std::lock_guard lock(mutex_);
    used_[static_cast<std::byte*>(memory)] = bytes;
    return static_cast<std::byte*>(memory);
  }
  void give_back(std::byte* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(memory);
    free_.emplace(found->second, memory);
    used_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> free_;
  std::map<std::byte*, std::size_t> used_;
};

PinnedMemory& pinned() {
  static auto* const memory = new PinnedMemory;
  return *memory;
}

/// A group with its data in host memory.
struct OnHost {
  std::vector<Operation> group;
  Calls work;
  std::vector<std::byte*> memory;
};

void copy(void* to, const void* from, std::size_t bytes, nccl::Stream stream) {
  require(runtime().copy(to, from, bytes, kAnyDirection, stream), "cudaMemcpyAsync");
}

void exchange(void* argument) {
  const auto& there = *static_cast<OnHost*>(argument);
  there.work(there.group);
}

void give_back(void* argument) {
  const std::unique_ptr<OnHost> there(static_cast<OnHost*>(argument));
  for (std::byte* memory : there->memory) pinned().give_back(memory);
}

/// Enqueues copies of the group's inputs on the stream, and allocates room for its outputs.
void bring(const std::vector<Operation>& group, const Place& place, OnHost& there) {
  for (Operation operation : group) {
    const auto room = [&](std::size_t bytes) { return there.memory.emplace_back(pinned().take(bytes)); };
    if (const std::size_t bytes = bytes_read(operation, place)) {
      std::byte* memory = room(bytes);
      copy(memory, operation.from, bytes, operation.stream);
      operation.from = memory;
    }
    if (const std::size_t bytes = bytes_written(operation, place)) operation.to = room(bytes);
    there.group.push_back(operation);
  }
}

}  // namespace

bool is_recorded(nccl::Stream stream) {
  int status = 0;
  require(runtime().is_capturing(stream, &status), "cudaStreamIsCapturing");
  return status != 0;
}

bool forgets_recordings() { return false; }

/// Enqueues a group. Recorded work is kept, because a graph may be replayed for the life of the process.
void enqueue(const std::vector<Operation>& group, const Place& place, Calls work) {
  const nccl::Stream stream = group.front().stream;
  auto* there = new OnHost{.group = {}, .work = std::move(work), .memory = {}};
  bring(group, place, *there);
  require(runtime().call(stream, exchange, there), "cudaLaunchHostFunc");
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::size_t bytes = bytes_written(group[i], place);
    if (bytes > 0) copy(group[i].to, there->group[i].to, bytes, stream);
  }
  if (!is_recorded(stream)) require(runtime().call(stream, give_back, there), "cudaLaunchHostFunc");
}

}  // namespace lockstep::testing::nccl_double
