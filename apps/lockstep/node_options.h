// SPDX-License-Identifier: Apache-2.0
// Which node of a job this is and where the nodes meet: the same words for `lockstep run` and `lockstep train`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/launch/agent.h"

namespace lockstep::apps {

struct NodeOptions {
  std::string nodes = "1";
  int node_rank = -1;  ///< not typed: 0, or any in a range
  std::string master_addr = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::string endpoint = {};  ///< HOST:PORT, over master_addr and master_port
  std::string run_id = {};
  std::string take_in = "checkpoint";
  std::string conf = {};           ///< --rdzv-conf
  std::string token_file = {};     ///< holds the secret of a run over several nodes
  std::string trust_network = {};  ///< whose machines may join without one
  std::string tls_cert = {};       ///< PEM files that encrypt the store: LOCKSTEP_TLS_CERT, _KEY and _CA
  std::string tls_key = {};
  std::string tls_ca = {};
  std::string wire = {};  ///< LOCKSTEP_WIRE of the ranks; empty: as the environment has it
};

/// Takes --nnodes, --node-rank, --master-addr, --master-port, --rdzv-endpoint, --rdzv-id or --run-id,
/// --rdzv-conf, --take-in, --token-file, --trust-network, --tls-cert, --tls-key, --tls-ca and --wire out of
/// `arguments`. Throws: UsageError where a value is missing or no number.
[[nodiscard]] NodeOptions take_node_options(std::vector<std::string>& arguments);

/// Sets the agent's nodes, their meeting, its secret and the job's name; the files of TLS and the wire go into this
/// process's environment, from which every part of the job takes them. Call it while there is one thread. Throws:
/// UsageError; DataError for a token file that is missing.
void apply(const NodeOptions& given, AgentOptions& options);

/// A job of MIN:MAX nodes takes a free port if the usual one is taken and the user gave no place to meet; it says how
/// another node joins it. If the user gave the place and a launcher listens there, this one joins. Changes both.
void choose_port(NodeOptions& given, AgentOptions& options);

/// `lockstep run --new-token [FILE]`: prints a token, or writes it into a new file. Returns: the exit code.
int make_new_token(const std::string& file);

/// Throws: UsageError where several nodes would meet without a secret, with the commands that give them one. `typed`:
/// the command line behind "lockstep".
void require_token(const AgentOptions& options, const std::vector<std::string>& typed);

}  // namespace lockstep::apps
