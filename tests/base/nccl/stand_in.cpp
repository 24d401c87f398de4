// SPDX-License-Identifier: Apache-2.0
// A libnccl.so.2 for tests: stubs with the names of NCCL's functions.
//   LOCKSTEP_STAND_IN_VERSION   what ncclGetVersion says; 0: it returns an error
//   LOCKSTEP_STAND_IN_IS_TORN   a function is missing
#define LOCKSTEP_STAND_IN(name) \
  extern "C" __attribute__((visibility("default"))) int name() { return 0; }

// As in NCCL itself, one function calls another, and that call resolves to the library that the loader finds first.
extern "C" __attribute__((visibility("default"))) int lockstep_stand_in_version() { return LOCKSTEP_STAND_IN_VERSION; }

extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = lockstep_stand_in_version();
  return *version == 0 ? 1 : 0;
}
LOCKSTEP_STAND_IN(ncclGetErrorString)
LOCKSTEP_STAND_IN(ncclGetLastError)
LOCKSTEP_STAND_IN(ncclGetUniqueId)
LOCKSTEP_STAND_IN(ncclCommInitRankConfig)
LOCKSTEP_STAND_IN(ncclCommGetAsyncError)
LOCKSTEP_STAND_IN(ncclCommFinalize)
LOCKSTEP_STAND_IN(ncclCommDestroy)
LOCKSTEP_STAND_IN(ncclCommAbort)
LOCKSTEP_STAND_IN(ncclGroupStart)
LOCKSTEP_STAND_IN(ncclGroupEnd)
LOCKSTEP_STAND_IN(ncclAllReduce)
LOCKSTEP_STAND_IN(ncclReduce)
LOCKSTEP_STAND_IN(ncclBroadcast)
LOCKSTEP_STAND_IN(ncclAllGather)
LOCKSTEP_STAND_IN(ncclReduceScatter)
LOCKSTEP_STAND_IN(ncclRecv)
#ifndef LOCKSTEP_STAND_IN_IS_TORN
LOCKSTEP_STAND_IN(ncclSend)
#endif
