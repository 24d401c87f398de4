// SPDX-License-Identifier: Apache-2.0
// A libc10.so, a libtorch_cuda.so or a libcuda.so.1 for tests, of which only the place matters.
extern "C" __attribute__((visibility("default"))) int lockstep_nothing() { return 0; }
