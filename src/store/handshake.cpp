// SPDX-License-Identifier: Apache-2.0
#include "store/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>

#include "lockstep/base/error.h"
#include "store/wire.h"

namespace lockstep::store {

std::string make_nonce() {
  std::string bytes(kNonceBytes, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw InternalError("the system's random generator gave no bytes");
  }
  return bytes;
}

std::string prove(std::string_view token, Side side, const Nonces& nonces) {
  // The version and who speaks, then numbers of fixed length: no two sets of words give the same bytes.
  std::string words(kMagic);
  words += side == Side::kClient ? " client " : " server ";
  words += nonces.client + nonces.server + nonces.binding;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (::HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
             reinterpret_cast<const unsigned char*>(words.data()), words.size(), digest.data(), &size) == nullptr) {
    throw InternalError("OpenSSL cannot compute HMAC-SHA256");
  }
  return {digest.begin(), digest.begin() + size};
}

bool is_proof(std::string_view proof, std::string_view token, Side side, const Nonces& nonces) {
  const std::string right = prove(token, side, nonces);
  return proof.size() == right.size() && ::CRYPTO_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace lockstep::store
