// SPDX-License-Identifier: Apache-2.0
// The node's rank in its job and the nodes' rendezvous: the same options for `lockstep run` and `lockstep train`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/launch/agent.h"

namespace lockstep::apps {

struct NodeOptions {
  std::string nodes = "1";
  int node_rank = -1;  ///< rank of this node; -1: not given, which means 0, or any rank with --nnodes A:B or c10d
  std::string master_addr = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::string endpoint = {};  ///< HOST:PORT, takes precedence over master_addr and master_port
  std::string backend = "static";
  std::string run_id = {};
  std::string take_in = "checkpoint";
  std::string conf = {};           ///< --rdzv-conf
  std::string token_file = {};     ///< file with the secret of a multi-node run
  std::string trust_network = {};  ///< network whose machines may join without a secret
  bool insecure_no_token = false;  ///< allow no secret: trust only trust_network, or this machine if that is empty
  std::string tls_cert = {};       ///< PEM files to encrypt the store: LOCKSTEP_TLS_CERT, _KEY and _CA
  std::string tls_key = {};
  std::string tls_ca = {};
  std::string wire = {};  ///< LOCKSTEP_WIRE of the ranks; empty: the environment's value
};

/// Takes --nnodes, --node-rank, --master-addr, --master-port, --rdzv-endpoint, --rdzv-id or --run-id,
/// --rdzv-conf, --take-in, --token-file, --trust-network, --insecure-no-token, --tls-cert, --tls-key, --tls-ca and
/// --wire out of `arguments`. Throws: UsageError if a value is missing or is not a number.
[[nodiscard]] NodeOptions take_node_options(std::vector<std::string>& arguments);

/// Sets the agent's nodes, rendezvous, secret and job name. Puts the TLS files and the wire into this process's
/// environment for every part of the job. Call it while the process has a single thread. Throws: UsageError; DataError
/// if the token file is missing.
void apply(const NodeOptions& given, AgentOptions& options);

/// If the user gave no rendezvous endpoint, a job of MIN:MAX nodes takes a free port if the default port is in use, and
/// prints how another node joins. If the user gave an endpoint and a launcher listens there, this node joins it.
/// Modifies `given` and `options`.
void choose_port(NodeOptions& given, AgentOptions& options);

/// `lockstep run --new-token [FILE]`: prints a token, or writes it to a new file. Returns the exit code.
int make_new_token(const std::string& file);

/// Throws: UsageError if several nodes would meet without a secret; it lists the commands that create one. `typed`: the
/// command line after "lockstep".
void require_token(const AgentOptions& options, const std::vector<std::string>& typed);

}  // namespace lockstep::apps
