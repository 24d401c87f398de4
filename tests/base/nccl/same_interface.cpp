// SPDX-License-Identifier: Apache-2.0
// Compiled if NCCL's own header is installed: checks our declarations against its functions.
#include <nccl.h>

#include <type_traits>

#include "lockstep/base/nccl_library.h"

namespace lockstep::nccl {

static_assert(sizeof(Result) == sizeof(ncclResult_t));
static_assert(int{kSuccess} == ncclSuccess && int{kUnhandledCudaError} == ncclUnhandledCudaError);
static_assert(int{kSystemError} == ncclSystemError && int{kInternalError} == ncclInternalError);
static_assert(int{kInvalidArgument} == ncclInvalidArgument && int{kInvalidUsage} == ncclInvalidUsage);
static_assert(int{kRemoteError} == ncclRemoteError && int{kInProgress} == ncclInProgress);

static_assert(sizeof(DataType) == sizeof(ncclDataType_t));
static_assert(int{kInt8} == ncclInt8 && int{kUint8} == ncclUint8 && int{kInt32} == ncclInt32);
static_assert(int{kInt64} == ncclInt64 && int{kFloat16} == ncclFloat16 && int{kFloat32} == ncclFloat32);
static_assert(int{kFloat64} == ncclFloat64 && int{kBfloat16} == ncclBfloat16);

static_assert(sizeof(RedOp) == sizeof(ncclRedOp_t));
static_assert(int{kSum} == ncclSum && int{kProd} == ncclProd && int{kMax} == ncclMax && int{kMin} == ncclMin);

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && alignof(UniqueId) == alignof(ncclUniqueId));
static_assert(std::is_same_v<Stream, cudaStream_t>);

static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size) && sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(Config{}.magic == kTheirs.magic && kOldestVersion == NCCL_VERSION(2, 14, 0));

/// Our type for one of their parameters.
template <class Theirs>
struct Ours {
  using type = Theirs;
};
template <class Theirs>
using OursOf = typename Ours<Theirs>::type;
template <>
struct Ours<ncclComm_t> {
  using type = Comm;
};
template <>
struct Ours<ncclResult_t> {
  using type = Result;
};
template <>
struct Ours<ncclDataType_t> {
  using type = DataType;
};
template <>
struct Ours<ncclRedOp_t> {
  using type = RedOp;
};
template <>
struct Ours<ncclUniqueId> {
  using type = UniqueId;
};
template <>
struct Ours<ncclConfig_t> {
  using type = Config;
};
template <class Theirs>
struct Ours<Theirs*> {
  using type = OursOf<Theirs>*;
};
template <class Returned, class... Parameters>
struct Ours<Returned(Parameters...)> {
  using type = OursOf<Returned>(OursOf<Parameters>...);
};

template <class Function, class Theirs>
constexpr bool kIsSame = std::is_same_v<Function, OursOf<Theirs>*>;

static_assert(kIsSame<decltype(Functions::get_version), decltype(ncclGetVersion)>);
static_assert(kIsSame<decltype(Functions::get_error_string), decltype(ncclGetErrorString)>);
static_assert(kIsSame<decltype(Functions::get_last_error), decltype(ncclGetLastError)>);
static_assert(kIsSame<decltype(Functions::get_unique_id), decltype(ncclGetUniqueId)>);
static_assert(kIsSame<decltype(Functions::comm_init_rank_config), decltype(ncclCommInitRankConfig)>);
static_assert(kIsSame<decltype(Functions::comm_get_async_error), decltype(ncclCommGetAsyncError)>);
static_assert(kIsSame<decltype(Functions::comm_finalize), decltype(ncclCommFinalize)>);
static_assert(kIsSame<decltype(Functions::comm_destroy), decltype(ncclCommDestroy)>);
static_assert(kIsSame<decltype(Functions::comm_abort), decltype(ncclCommAbort)>);
static_assert(kIsSame<decltype(Functions::group_start), decltype(ncclGroupStart)>);
static_assert(kIsSame<decltype(Functions::group_end), decltype(ncclGroupEnd)>);
static_assert(kIsSame<decltype(Functions::all_reduce), decltype(ncclAllReduce)>);
static_assert(kIsSame<decltype(Functions::reduce), decltype(ncclReduce)>);
static_assert(kIsSame<decltype(Functions::broadcast), decltype(ncclBroadcast)>);
static_assert(kIsSame<decltype(Functions::all_gather), decltype(ncclAllGather)>);
static_assert(kIsSame<decltype(Functions::reduce_scatter), decltype(ncclReduceScatter)>);
static_assert(kIsSame<decltype(Functions::send), decltype(ncclSend)>);
static_assert(kIsSame<decltype(Functions::recv), decltype(ncclRecv)>);

}  // namespace lockstep::nccl
