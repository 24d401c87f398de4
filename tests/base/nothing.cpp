// SPDX-License-Identifier: Apache-2.0
// A libc10.so, libtorch_cuda.so or libcuda.so.1 for tests: only its location matters.
extern "C" __attribute__((visibility("default"))) int lockstep_nothing() { return 0; }
