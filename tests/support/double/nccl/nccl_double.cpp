// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that Lockstep calls. A test names this library in LOCKSTEP_NCCL.
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "communicator.h"
#include "lockstep/base/nccl_library.h"
#include "order.h"

namespace nccl = lockstep::nccl;
using namespace lockstep::testing::nccl_double;  // NOLINT(google-build-using-namespace): this file is about it

namespace {

/// A thread's calls between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  Communicator* communicator = nullptr;
  std::vector<Operation> operations = {};
};

Group& group() {
  static thread_local Group group;
  return group;
}

Communicator& of(nccl::Comm comm) { return *reinterpret_cast<Communicator*>(comm); }

/// All communicators, which are kept so that a call to a destroyed communicator is detected.
std::vector<std::unique_ptr<Communicator>>& kept() {
  static auto* const all = new std::vector<std::unique_ptr<Communicator>>;
  return *all;
}

nccl::Result end_group() {
  Group& calls = group();
  if (calls.depth == 0) end_for("ncclGroupEnd without ncclGroupStart");
  if (--calls.depth > 0 || calls.communicator == nullptr) return nccl::kSuccess;
  Communicator& communicator = *std::exchange(calls.communicator, nullptr);
  const Communicator::Visit visit(communicator, "ncclGroupEnd");
  return communicator.launch(std::exchange(calls.operations, {}));
}

nccl::Result add(nccl::Comm comm, const Operation& operation) {
  Group& calls = group();
  Communicator& communicator = of(comm);
  if (calls.communicator != nullptr && calls.communicator != &communicator) {
    end_for("two communicators in one group, which Lockstep does not need");
  }
  if (operation.peer < 0 || operation.peer >= communicator.world()) return nccl::kInvalidArgument;
  ++calls.depth;
  calls.communicator = &communicator;
  calls.operations.push_back(operation);
  return end_group();
}

const std::byte* in(const void* memory) { return static_cast<const std::byte*>(memory); }
std::byte* out(void* memory) { return static_cast<std::byte*>(memory); }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

nccl::Result ncclGetVersion(int* version) {
  *version = 22'809;
  return nccl::kSuccess;
}

const char* ncclGetErrorString(nccl::Result result) {
  if (result == nccl::kRemoteError) return "remote process exited or there was a network error";
  return result == nccl::kSystemError ? "unhandled system error (run with NCCL_DEBUG=INFO for details)" : "an error";
}

const char* ncclGetLastError(nccl::Comm comm) { return of(comm).last_error(); }

nccl::Result ncclGetUniqueId(nccl::UniqueId* id) {
  const std::string name = Boxes::make();
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, name.data(), name.size());
  return name.empty() ? nccl::kSystemError : nccl::kSuccess;
}

nccl::Result ncclCommInitRankConfig(nccl::Comm* comm, int world, nccl::UniqueId id, int rank, nccl::Config* config) {
  if (config->magic != 0xcafebeef || config->size < sizeof(nccl::Config)) return nccl::kInvalidArgument;
  if (world > kMostRanks || rank < 0 || rank >= world) return nccl::kInvalidArgument;
  auto made = std::make_unique<Communicator>(id.internal, rank, world, config->blocking != 0);
  *comm = reinterpret_cast<nccl::Comm>(made.get());
  const Communicator::Visit visit(*made, "ncclCommInitRankConfig");
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return kept().emplace_back(std::move(made))->connect();
}

nccl::Result ncclCommGetAsyncError(nccl::Comm comm, nccl::Result* result) {
  const Communicator::Visit visit(of(comm), "ncclCommGetAsyncError");
  *result = of(comm).state();
  return nccl::kSuccess;
}

nccl::Result ncclCommFinalize(nccl::Comm comm) {
  const Communicator::Visit visit(of(comm), "ncclCommFinalize");
  return of(comm).finalize();
}

nccl::Result ncclCommDestroy(nccl::Comm comm) {
  const Communicator::Visit visit(of(comm), "ncclCommDestroy");
  of(comm).destroy();
  return nccl::kSuccess;
}

nccl::Result ncclCommAbort(nccl::Comm comm) {
  if (of(comm).is_blocked()) {
    of(comm).abort();
    return nccl::kSuccess;
  }
  const Communicator::Visit visit(of(comm), "ncclCommAbort");
  of(comm).abort();
  return nccl::kSuccess;
}

nccl::Result ncclGroupStart() {
  ++group().depth;
  return nccl::kSuccess;
}

nccl::Result ncclGroupEnd() { return end_group(); }

nccl::Result ncclAllReduce(const void* from, void* to, std::size_t count, nccl::DataType type, nccl::RedOp op,
                           nccl::Comm comm, nccl::Stream stream) {
  return add(comm, {Kind::kAllReduce, in(from), out(to), count, type, op, 0, stream});
}

nccl::Result ncclReduce(const void* from, void* to, std::size_t count, nccl::DataType type, nccl::RedOp op, int root,
                        nccl::Comm comm, nccl::Stream stream) {
  return add(comm, {Kind::kReduce, in(from), out(to), count, type, op, root, stream});
}

nccl::Result ncclBroadcast(const void* from, void* to, std::size_t count, nccl::DataType type, int root,
                           nccl::Comm comm, nccl::Stream stream) {
  return add(comm, {Kind::kBroadcast, in(from), out(to), count, type, nccl::kSum, root, stream});
}

nccl::Result ncclAllGather(const void* from, void* to, std::size_t count, nccl::DataType type, nccl::Comm comm,
                           nccl::Stream stream) {
  return add(comm, {Kind::kAllGather, in(from), out(to), count, type, nccl::kSum, 0, stream});
}

nccl::Result ncclReduceScatter(const void* from, void* to, std::size_t count, nccl::DataType type, nccl::RedOp op,
                               nccl::Comm comm, nccl::Stream stream) {
  return add(comm, {Kind::kReduceScatter, in(from), out(to), count, type, op, 0, stream});
}

nccl::Result ncclSend(const void* from, std::size_t count, nccl::DataType type, int peer, nccl::Comm comm,
                      nccl::Stream stream) {
  return add(comm, {Kind::kSend, in(from), nullptr, count, type, nccl::kSum, peer, stream});
}

nccl::Result ncclRecv(void* to, std::size_t count, nccl::DataType type, int peer, nccl::Comm comm,
                      nccl::Stream stream) {
  return add(comm, {Kind::kRecv, nullptr, out(to), count, type, nccl::kSum, peer, stream});
}

}  // extern "C"
#pragma GCC visibility pop
