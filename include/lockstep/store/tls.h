// SPDX-License-Identifier: Apache-2.0
// Encryption of the store's connections: TLS 1.3, if a certificate is given.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// The PEM file of the certificate that the server of a store shows, with its chain: LOCKSTEP_TLS_CERT, "" if it is
/// unset.
[[nodiscard]] std::string tls_certificate();
/// The PEM file of that certificate's private key: LOCKSTEP_TLS_KEY, "" if it is unset. Only the server needs it.
[[nodiscard]] std::string tls_key();
/// The PEM file of the certificates that a client trusts: LOCKSTEP_TLS_CA, else LOCKSTEP_TLS_CERT, "" if both are
/// unset.
[[nodiscard]] std::string tls_trust();

}  // namespace lockstep

#pragma GCC visibility pop
