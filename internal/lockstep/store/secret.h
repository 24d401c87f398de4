// SPDX-License-Identifier: Apache-2.0
// Checks, reads and writes the token, the secret that grants access to the store of a run across several hosts.
#pragma once

#include <filesystem>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Checks a token. Throws: UsageError naming `source` (a file, a variable) if it is too short for a secret or not a
/// line of printable ASCII.
void require_secret(const std::string& token, const std::string& source);

/// Returns the token in a file, without the line ending. Throws: UsageError if the file is not regular, is not owned by
/// this user, can be read by others, or does not hold a secret; DataError if it is missing.
[[nodiscard]] std::string read_token_file(const std::filesystem::path& file);

/// Writes a new token into a new file that only this user may read. Throws: UsageError if the file exists; IoError.
void write_token_file(const std::filesystem::path& file);

/// Returns true if only processes of this machine can reach `host`: it is a loopback address, or a name that resolves
/// only to such addresses.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace lockstep

#pragma GCC visibility pop
