// SPDX-License-Identifier: Apache-2.0
// Protects standard input, output and error: their state does not change how a program ends, unless the program asks
// whether its output was written.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep {

/// Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed; otherwise the next file or socket would take
/// its number and get the stream's data. From then on a write to a pipe without a reader (SIGPIPE) or beyond the
/// largest allowed file size (SIGXFSZ) fails with an errno and does not end the process. In programs that this process
/// executes, these signals have their default effect. Signals that the program ignores or handles stay unchanged.
/// guarded_main() and init() call this.
void prepare_standard_streams() noexcept;

/// Writes `text`. If the write fails (no reader, or the disk is full), the rest is lost without an error: the output of
/// a run never changes its exit code. A command whose result is its output calls require_output() at its end.
void write_to(std::FILE* file, std::string_view text) noexcept;

/// Writes out the rest of standard output. Throws: IoError if a part of the output since the start of the program was
/// not written, such as on a full disk. A pipe whose reader left, as in `| head`, is no error. Blocks: until a slow
/// reader takes the rest.
void require_output();

/// Formats the text and passes it to write_to(); fmt::print would throw.
/// Example: print_to(stdout, "{} images\n", count);
template <class... Args>
void print_to(std::FILE* file, fmt::format_string<Args...> format, Args&&... args) {
  write_to(file, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep

#pragma GCC visibility pop
