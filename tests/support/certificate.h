// SPDX-License-Identifier: Apache-2.0
// A test's own certificates, created by OpenSSL with elliptic-curve keys.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace lockstep::test {

struct Certificate {
  std::string certificate;  ///< both are paths of PEM files
  std::string key;
};

struct CertificateOptions {
  long seconds = 86'400;    ///< seconds until it expires; negative: it has expired
  Certificate signer = {};  ///< certificate of the signer; empty: self-signed
};

/// Creates a certificate and writes `folder`/`name`.crt and .key.
inline Certificate make_certificate(const std::filesystem::path& folder, const std::string& name,
                                    const CertificateOptions& options = {}) {
  using Key = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;
  using File = std::unique_ptr<FILE, decltype(&::fclose)>;
  const auto good = [](bool is_good) {
    if (!is_good) throw std::runtime_error("OpenSSL made no certificate");
  };
  const Key key(::EVP_EC_gen("P-256"), &::EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&::X509_free)> made(::X509_new(), &::X509_free);
  good(key && made);
  ::X509_set_version(made.get(), 2);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), -2 * 86'400);
  ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), options.seconds);
  ::X509_set_pubkey(made.get(), key.get());
  X509_NAME* subject = ::X509_get_subject_name(made.get());
  ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                               -1, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&::X509_EXTENSION_free)> may_sign(
      ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE"), &::X509_EXTENSION_free);
  good(may_sign && ::X509_add_ext(made.get(), may_sign.get(), -1) == 1);
  Key signer(nullptr, &::EVP_PKEY_free);
  std::unique_ptr<X509, decltype(&::X509_free)> issuer(nullptr, &::X509_free);
  if (!options.signer.key.empty()) {
    signer.reset(::PEM_read_PrivateKey(File(::fopen(options.signer.key.c_str(), "re"), &::fclose).get(), nullptr,
                                       nullptr, nullptr));
    issuer.reset(::PEM_read_X509(File(::fopen(options.signer.certificate.c_str(), "re"), &::fclose).get(), nullptr,
                                 nullptr, nullptr));
    good(signer && issuer);
  }
  ::X509_set_issuer_name(made.get(), issuer ? ::X509_get_subject_name(issuer.get()) : subject);
  good(::X509_sign(made.get(), signer ? signer.get() : key.get(), ::EVP_sha256()) > 0);
  const Certificate files{(folder / (name + ".crt")).string(), (folder / (name + ".key")).string()};
  const auto write = [&](const std::string& file, auto&& one) {
    const File to(::fopen(file.c_str(), "we"), &::fclose);
    good(to && one(to.get()) == 1);
  };
  write(files.certificate, [&](FILE* to) { return ::PEM_write_X509(to, made.get()); });
  write(files.key,
        [&](FILE* to) { return ::PEM_write_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  return files;
}

}  // namespace lockstep::test
