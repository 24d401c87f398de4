// SPDX-License-Identifier: Apache-2.0
#include "store/tls.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/store/tls.h"

namespace lockstep {

std::string tls_certificate() { return env::get("LOCKSTEP_TLS_CERT").value_or(""); }
std::string tls_key() { return env::get("LOCKSTEP_TLS_KEY").value_or(""); }
std::string tls_trust() { return env::get("LOCKSTEP_TLS_CA").value_or(tls_certificate()); }

namespace store {
namespace {

constexpr std::size_t kBindingBytes = 32;
constexpr std::string_view kBindingLabel = "EXPORTER-Channel-Binding";

// Returns OpenSSL's last error as text.
std::string problem() {
  std::array<char, 256> text{};
  const unsigned long code = ::ERR_peek_last_error();
  ::ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ::ERR_reason_error_string(code);
  if (reason != nullptr) return reason;
  ::ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

TlsContext make_context(const SSL_METHOD* method) {
  ::ERR_clear_error();
  TlsContext context(::SSL_CTX_new(method), &::SSL_CTX_free);
  if (!context || ::SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1) {
    throw InternalError("OpenSSL does not support TLS 1.3: " + problem());
  }
  ::SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  return context;
}

/// Rejects large files, because OpenSSL reads a file of any size to its end.
void require_small(const std::string& file) {
  constexpr std::uint64_t kMostBytes = 16U << 20U;
  std::error_code problem;
  const auto size = std::filesystem::is_regular_file(file, problem) ? std::filesystem::file_size(file, problem) : 0;
  if (problem || size <= kMostBytes) return;
  throw UsageError(
      fmt::format("{} has {}; the limit for a PEM file is {}", file, text::bytes(size), text::bytes(kMostBytes)),
      "pass the PEM file of a certificate or a key");
}

}  // namespace

TlsContext server_tls(const std::string& certificate, const std::string& key) {
  if (key.empty()) {
    throw UsageError(
        fmt::format("no private key is set for the certificate {}", certificate),
        "on the machine that serves the store, set --tls-key or LOCKSTEP_TLS_KEY to the PEM file of the key");
  }
  require_small(certificate);
  require_small(key);
  TlsContext context = make_context(::TLS_server_method());
  ::SSL_CTX_set_num_tickets(context.get(), 0);  // clients do not resume sessions
  if (::SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) != 1) {
    throw UsageError(fmt::format("{} is not a certificate that the store can use ({})", certificate, problem()),
                     "use a PEM file that begins with the certificate of this machine");
  }
  if (::SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      ::SSL_CTX_check_private_key(context.get()) != 1) {
    throw UsageError(fmt::format("{} is not the private key of the certificate {} ({})", key, certificate, problem()),
                     "use the PEM file of the key, without a password");
  }
  return context;
}

TlsContext client_tls(const std::string& trust) {
  require_small(trust);
  TlsContext context = make_context(::TLS_client_method());
  if (::SSL_CTX_load_verify_file(context.get(), trust.c_str()) != 1) {
    throw UsageError(fmt::format("{} holds no certificate to trust ({})", trust, problem()),
                     "use a PEM file with the store's certificate, or with that of the authority that signed it");
  }
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  // Trusts the server's own certificate, without its issuer.
  ::X509_VERIFY_PARAM_set_flags(::SSL_CTX_get0_param(context.get()), X509_V_FLAG_PARTIAL_CHAIN);
  return context;
}

std::string channel_binding(SSL* connection) {
  std::string bytes(kBindingBytes, '\0');
  if (::SSL_export_keying_material(connection, reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                   kBindingLabel.data(), kBindingLabel.size(), nullptr, 0, 0) != 1) {
    throw InternalError("OpenSSL cannot export a channel binding: " + problem());
  }
  return bytes;
}

TlsClient::TlsClient(const TlsContext& context)
    : context_(context),
      connection_(::SSL_new(context.get()), &::SSL_free),
      incoming_(::BIO_new(::BIO_s_mem())),
      outgoing_(::BIO_new(::BIO_s_mem())) {
  if (!connection_ || incoming_ == nullptr || outgoing_ == nullptr) throw std::bad_alloc();
  ::SSL_set_bio(connection_.get(), incoming_, outgoing_);
  ::SSL_set_connect_state(connection_.get());
}

TlsClient::Step TlsClient::step_of(int result) {
  if (result > 0) return Step::kDone;
  return ::SSL_get_error(connection_.get(), result) == SSL_ERROR_WANT_READ ? Step::kWantsBytes : Step::kFailed;
}

TlsClient::Step TlsClient::shake_hands() {
  ::ERR_clear_error();
  return step_of(::SSL_do_handshake(connection_.get()));
}

bool TlsClient::write(std::string_view words) {
  ::ERR_clear_error();
  std::size_t written = 0;
  return words.empty() ||
         (::SSL_write_ex(connection_.get(), words.data(), words.size(), &written) == 1 && written == words.size());
}

TlsClient::Step TlsClient::read(char* to, std::size_t count, std::size_t& got) {
  ::ERR_clear_error();
  return step_of(::SSL_read_ex(connection_.get(), to, count, &got));
}

void TlsClient::arrived(std::string_view records) {
  ::BIO_write(incoming_, records.data(), static_cast<int>(records.size()));
}

std::string TlsClient::records() {
  std::string bytes(::BIO_ctrl_pending(outgoing_), '\0');
  if (!bytes.empty()) ::BIO_read(outgoing_, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

std::string TlsClient::distrust() const {
  const long verdict = ::SSL_get_verify_result(connection_.get());
  return verdict == X509_V_OK ? "" : ::X509_verify_cert_error_string(verdict);
}

}  // namespace store
}  // namespace lockstep
