// SPDX-License-Identifier: Apache-2.0
// A libc10.so for tests, of which only the place matters.
extern "C" __attribute__((visibility("default"))) int lockstep_no_torch() { return 0; }
