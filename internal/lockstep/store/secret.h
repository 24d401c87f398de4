// SPDX-License-Identifier: Apache-2.0
// The secret that opens the store of a run over several hosts: who may read it, what is valid, and where none is
// needed.
#pragma once

#include <filesystem>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Checks a token. Throws: UsageError naming `where` (a file, a variable) where it is too short for a secret or no line
/// of printable ASCII.
void require_secret(const std::string& token, const std::string& where);

/// Returns the token in a file, without the end of line. Throws: UsageError where the file is not regular, not this
/// user's, readable by others, or holds no secret; DataError where it is missing.
[[nodiscard]] std::string read_token_file(const std::filesystem::path& file);

/// Writes a new token into a new file that this user alone may read. Throws: UsageError where the file exists; IoError.
void write_token_file(const std::filesystem::path& file);

/// Returns true where only processes of this machine reach `host`: a loopback address, or a name that resolves to
/// nothing else.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace lockstep

#pragma GCC visibility pop
