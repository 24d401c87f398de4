// SPDX-License-Identifier: Apache-2.0
// Loads NCCL when ranks need it. This way the same program runs with or without NCCL, and builds without NCCL's header.
// The types and values are NCCL's binary interface, which is the same in 2.14 and all later versions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

struct CUstream_st;

#pragma GCC visibility push(default)

namespace lockstep::nccl {

struct Communicator;            ///< ncclComm, opaque to all but NCCL
using Comm = Communicator*;     ///< ncclComm_t
using Stream = ::CUstream_st*;  ///< cudaStream_t

/// ncclResult_t. Later versions may add values.
enum Result : int {
  kSuccess = 0,             ///< ncclSuccess
  kUnhandledCudaError = 1,  ///< ncclUnhandledCudaError
  kSystemError = 2,         ///< ncclSystemError
  kInternalError = 3,       ///< ncclInternalError
  kInvalidArgument = 4,     ///< ncclInvalidArgument
  kInvalidUsage = 5,        ///< ncclInvalidUsage
  kRemoteError = 6,         ///< ncclRemoteError
  kInProgress = 7           ///< ncclInProgress
};

/// ncclDataType_t, without the unsigned types, which libtorch does not have.
enum DataType : int {
  kInt8 = 0,     ///< ncclInt8
  kUint8 = 1,    ///< ncclUint8
  kInt32 = 2,    ///< ncclInt32
  kInt64 = 4,    ///< ncclInt64
  kFloat16 = 6,  ///< ncclFloat16
  kFloat32 = 7,  ///< ncclFloat32
  kFloat64 = 8,  ///< ncclFloat64
  kBfloat16 = 9  ///< ncclBfloat16
};

/// ncclRedOp_t.
enum RedOp : int {
  kSum = 0,   ///< ncclSum
  kProd = 1,  ///< ncclProd
  kMax = 2,   ///< ncclMax
  kMin = 3    ///< ncclMin
};

/// ncclUniqueId.
struct UniqueId {
  char internal[128];  ///< private to NCCL
};

constexpr int kOldestVersion = 21400;  ///< 2.14, the first version with non-blocking communicators

/// ncclConfig_t of NCCL 2.14; a later NCCL uses its defaults for newer fields.
struct Config {
  std::size_t size = sizeof(Config);  ///< bytes
  unsigned magic = 0xcafebeef;        ///< marks an ncclConfig_t
  unsigned version = kOldestVersion;  ///< determines which fields exist
  int blocking = 1;                   ///< 0: a call may return kInProgress
};

/// The functions that Lockstep calls: ncclGetVersion is get_version, and so on.
struct Functions {
  Result (*get_version)(int*) = nullptr;                                          ///< ncclGetVersion
  const char* (*get_error_string)(Result) = nullptr;                              ///< ncclGetErrorString
  const char* (*get_last_error)(Comm) = nullptr;                                  ///< ncclGetLastError
  Result (*get_unique_id)(UniqueId*) = nullptr;                                   ///< ncclGetUniqueId
  Result (*comm_init_rank_config)(Comm*, int, UniqueId, int, Config*) = nullptr;  ///< ncclCommInitRankConfig
  Result (*comm_get_async_error)(Comm, Result*) = nullptr;                        ///< ncclCommGetAsyncError
  Result (*comm_finalize)(Comm) = nullptr;                                        ///< ncclCommFinalize
  Result (*comm_destroy)(Comm) = nullptr;                                         ///< ncclCommDestroy
  Result (*comm_abort)(Comm) = nullptr;                                           ///< ncclCommAbort
  Result (*group_start)() = nullptr;                                              ///< ncclGroupStart
  Result (*group_end)() = nullptr;                                                ///< ncclGroupEnd
  Result (*all_reduce)(const void*, void*, std::size_t, DataType, RedOp, Comm, Stream) = nullptr;   ///< ncclAllReduce
  Result (*reduce)(const void*, void*, std::size_t, DataType, RedOp, int, Comm, Stream) = nullptr;  ///< ncclReduce
  Result (*broadcast)(const void*, void*, std::size_t, DataType, int, Comm, Stream) = nullptr;      ///< ncclBroadcast
  Result (*all_gather)(const void*, void*, std::size_t, DataType, Comm, Stream) = nullptr;          ///< ncclAllGather
  /// ncclReduceScatter
  Result (*reduce_scatter)(const void*, void*, std::size_t, DataType, RedOp, Comm, Stream) = nullptr;
  Result (*send)(const void*, std::size_t, DataType, int, Comm, Stream) = nullptr;  ///< ncclSend
  Result (*recv)(void*, std::size_t, DataType, int, Comm, Stream) = nullptr;        ///< ncclRecv
};

/// The places to search.
struct Search {
  std::string named = {};         ///< LOCKSTEP_NCCL: only this file
  std::string loaded = {};        ///< the file with NCCL's functions that the process has already loaded
  std::string torch_folder = {};  ///< the folder of libtorch's libraries; empty: the process has none
};

/// Returns LOCKSTEP_NCCL; empty if it is not set.
[[nodiscard]] std::string named_by_user();

/// Returns the places to search for a process that has loaded `files`. It is a pure function.
[[nodiscard]] Search search_among(const std::vector<std::string>& files);

/// Returns the places to search for this process, from its environment and its loaded files.
[[nodiscard]] Search search_of_this_process();

/// Returns the files to open, in order: only the file that the user names; or only the loaded file, because two NCCLs
/// in a process would call each other's functions; or else the files beside libtorch (Python packages and the archives
/// of pytorch.org put NCCL there), then the system's. It is a pure function.
[[nodiscard]] std::vector<std::string> places(const Search& search);

/// An open library, or the reason why there is none.
struct Library {
  Functions functions = {};  ///< the functions; complete if `problem` is empty
  std::string version = {};  ///< "2.28.9"; empty: no library was opened
  std::string path = {};     ///< the library's file; empty: no library was opened
  std::string problem = {};  ///< the reason why it cannot be used, in one line; empty: it can
};

/// Opens the first of places(search) that can be opened. It is never closed. Thread-safe: yes.
[[nodiscard]] Library open(const Search& search);

/// Returns the library of this process, which the first call opens. Thread-safe: yes.
[[nodiscard]] const Library& library();

}  // namespace lockstep::nccl

#pragma GCC visibility pop
