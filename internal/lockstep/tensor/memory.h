// SPDX-License-Identifier: Apache-2.0
// Makes the process keep the memory that libtorch frees.
#pragma once

#pragma GCC visibility push(default)

namespace lockstep {

/// Keeps freed memory for the next step instead of returning it to the system. libtorch's CPU allocator frees every
/// activation each step; glibc unmaps large blocks, and the next step pays for zeroed pages again: 180 ms of a 780 ms
/// step of the captcha network in bf16. The process then keeps the memory of its largest step. Trainer, DataLoader and
/// DataParallel call it. It changes nothing if MALLOC_MMAP_MAX_, MALLOC_TRIM_THRESHOLD_, MALLOC_TOP_PAD_ or
/// MALLOC_ARENA_MAX is set. Call it once, before training. If threads compute (DataParallel, several replicas on a
/// rank), call it at the start of main(): a thread that started earlier keeps its own arena, whose blocks of more than
/// 64 MiB glibc unmaps, and later threads may share it. Without glibc it does nothing.
void keep_freed_memory();

}  // namespace lockstep

#pragma GCC visibility pop
