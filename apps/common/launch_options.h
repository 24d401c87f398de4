// SPDX-License-Identifier: Apache-2.0
// The options that start ranks, for --help: `lockstep` takes them away before lockstep-worker reads its own, and both
// describe them in these words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lockstep::cli {

inline constexpr const char* kRanks = "Ranks";

/// --nproc-per-node; `fallback` is what --help calls its default. Adds it where `app` does not have it.
void describe_processes(CLI::App& app, const std::string& fallback = "1");

/// --wire, which it adds where `app` does not have it.
void describe_wire(CLI::App& app);

/// --nnodes, --node-rank, --master-addr, --master-port, --rdzv-endpoint, --rdzv-id, --token-file and --tls-...: each is
/// added where `app` does not have it, and described.
void describe_nodes(CLI::App& app);

/// Adds an option that somebody else has read already, for --help alone.
CLI::Option* add_read_option(CLI::App& app, const std::string& name, const std::string& description);

}  // namespace lockstep::cli
