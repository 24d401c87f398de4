// SPDX-License-Identifier: Apache-2.0
// The files for encrypting the store's connections: TLS 1.3 is used if there is a certificate.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// Returns the PEM file of the certificate that a store's server presents, with its chain: LOCKSTEP_TLS_CERT; "" if
/// unset.
[[nodiscard]] std::string tls_certificate();
/// Returns the PEM file of that certificate's private key, which only the server needs: LOCKSTEP_TLS_KEY; "" if unset.
[[nodiscard]] std::string tls_key();
/// Returns the PEM file of the certificates that a client trusts: LOCKSTEP_TLS_CA, else LOCKSTEP_TLS_CERT; else "".
[[nodiscard]] std::string tls_trust();

}  // namespace lockstep

#pragma GCC visibility pop
