// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 with an external pre-shared key (RFC 8446, 4.2.11). OpenSSL does all cryptography; this file moves its
// records. It collects the records that OpenSSL writes and sends them in large pieces, and it reads bytes for OpenSSL
// from the socket in large pieces. (OpenSSL's own read-ahead moves the remaining bytes with each record.)
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "lockstep/base/error.h"
#include "wire/stream.h"

namespace lockstep::wire {
namespace {

constexpr std::size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::size_t kSocketRead = std::size_t{256} << 10;  // bytes of one read from the socket
constexpr std::size_t kGathered = std::size_t{256} << 10;    // limit of the records that wait for the socket
constexpr const char* kIdentity = "lockstep";
constexpr unsigned char kCipher[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

class TlsStream;

std::string problem() {
  const unsigned long code = ::ERR_peek_last_error();
  ::ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  return reason != nullptr ? reason : "no reason given";
}

/// Creates a session from a pre-shared key. The caller owns the session.
SSL_SESSION* make_session(SSL* connection, const std::string& key) {
  SSL_SESSION* session = ::SSL_SESSION_new();
  const SSL_CIPHER* cipher = ::SSL_CIPHER_find(connection, kCipher);
  if (session == nullptr || cipher == nullptr ||
      ::SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size()) != 1 ||
      ::SSL_SESSION_set_cipher(session, cipher) != 1 ||
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    ::SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

const std::string& key_of(SSL* connection);

int offer_key(SSL* connection, const EVP_MD* /*digest*/, const unsigned char** identity, std::size_t* size,
              SSL_SESSION** session) {
  *session = make_session(connection, key_of(connection));
  *identity = reinterpret_cast<const unsigned char*>(kIdentity);
  *size = std::strlen(kIdentity);
  return *session == nullptr ? 0 : 1;
}

int find_key(SSL* connection, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  *session = nullptr;
  if (size != std::strlen(kIdentity) || std::memcmp(identity, kIdentity, size) != 0) return 1;  // not our key
  *session = make_session(connection, key_of(connection));
  return *session == nullptr ? 0 : 1;
}

int bio_write(BIO* bio, const char* data, std::size_t bytes, std::size_t* taken);
int bio_read(BIO* bio, char* data, std::size_t bytes, std::size_t* got);

long bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* make_method() {
  BIO_METHOD* method = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lockstep wire");
  if (method == nullptr) throw std::bad_alloc();
  ::BIO_meth_set_write_ex(method, bio_write);
  ::BIO_meth_set_read_ex(method, bio_read);
  ::BIO_meth_set_ctrl(method, bio_control);
  return method;
}

/// Creates the process-wide context, which holds no key.
SSL_CTX* make_context() {
  SSL_CTX* context = ::SSL_CTX_new(::TLS_method());
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1) {
    throw InternalError("OpenSSL does not support TLS 1.3 with AES-128-GCM: " + problem());
  }
  ::SSL_CTX_set_psk_use_session_callback(context, offer_key);
  ::SSL_CTX_set_psk_find_session_callback(context, find_key);
  ::SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_quiet_shutdown(context, 1);
  return context;
}

class TlsStream final : public Stream {
 public:
  TlsStream(int fd, End end, std::string key, const TlsOptions& options)
      : fd_(fd), key_(std::move(key)), options_(options) {
    static SSL_CTX* const context = make_context();
    static BIO_METHOD* const method = make_method();
    connection_.reset(::SSL_new(context));
    BIO* bio = ::BIO_new(method);
    if (!connection_ || bio == nullptr) throw std::bad_alloc();
    ::BIO_set_data(bio, this);
    ::BIO_set_init(bio, 1);
    ::SSL_set_bio(connection_.get(), bio, bio);
    SSL_set_app_data(connection_.get(), this);
    if (end == End::kCaller) {
      ::SSL_set_connect_state(connection_.get());
      // Certificates are not trusted: only the key counts.
      ::SSL_set_verify(connection_.get(), SSL_VERIFY_PEER, nullptr);
    }
    if (end == End::kCalled) ::SSL_set_accept_state(connection_.get());
  }

  bool shake_hands() override {
    if (!is_open_) {
      ::ERR_clear_error();
      const int result = ::SSL_do_handshake(connection_.get());
      if (result <= 0) require_retry(result, "the TLS handshake failed");
      // The handshake succeeds only with the key, because certificates are not accepted. Check that it used the key.
      is_open_ = result > 0;
      if (is_open_ && ::SSL_session_reused(connection_.get()) != 1)
        throw ConnectionLost("the TLS connection does not use the job's key");
    }
    return flush() && is_open_;
  }

  std::size_t write(const std::vector<Segment>& segments) override {
    std::size_t taken = 0;
    std::size_t at = 0;  // position in the segment
    for (std::size_t i = 0; i < segments.size();) {
      if (gathered_bytes() >= kGathered && !flush()) break;
      if (segments[i].bytes - at >= kRecord) {
        const std::size_t bytes = std::min((segments[i].bytes - at) / kRecord * kRecord, kGathered);
        encrypt(segments[i].data + at, bytes);
        taken += bytes;
        at += bytes;
      } else {
        taken += encrypt_small(segments, i, at);
      }
      if (i < segments.size() && at == segments[i].bytes) {
        ++i;
        at = 0;
      }
    }
    return taken;
  }

  std::size_t read(Room first, Room second) override {
    const Room room = first.bytes > 0 ? first : second;
    std::size_t got = 0;
    while (got < room.bytes) {
      std::size_t some = 0;
      ::ERR_clear_error();
      const int result = ::SSL_read_ex(connection_.get(), room.data + got, room.bytes - got, &some);
      if (result <= 0) {
        // The other end may close the socket after its last bytes, which are still valid.
        if (got == 0) require_retry(result, "cannot decrypt");
        break;
      }
      got += some;
    }
    return got;
  }

  bool flush() override {
    while (sent_ < gathered_.size()) {
      const std::size_t some = send_some(fd_, {{gathered_.data() + sent_, gathered_.size() - sent_}});
      if (some == 0) break;
      sent_ += some;
    }
    const bool is_flushed = sent_ == gathered_.size();
    // On a slow connection there are always some records left, so the sent ones are also removed before them.
    if (is_flushed || sent_ >= kGathered) {
      gathered_.erase(gathered_.begin(), gathered_.begin() + static_cast<std::ptrdiff_t>(std::exchange(sent_, 0)));
    }
    return is_flushed;
  }

  // Collects records. OpenSSL calls it.
  void gather(const char* data, std::size_t bytes) {
    const auto* from = reinterpret_cast<const std::byte*>(data);
    gathered_.insert(gathered_.end(), from, from + bytes);
  }
  std::size_t receive(char* data, std::size_t bytes) {
    if (come_begin_ == come_end_) {
      come_begin_ = 0;
      come_end_ = receive_some(fd_, {}, {come_.get(), kSocketRead});
    }
    const std::size_t some = std::min(bytes, come_end_ - come_begin_);
    std::memcpy(data, come_.get() + come_begin_, some);
    come_begin_ += some;
    return some;
  }
  void note_lost(const std::string& words) { lost_ = words; }
  [[nodiscard]] const std::string& key() const { return key_; }

 private:
  [[nodiscard]] std::size_t gathered_bytes() const { return gathered_.size() - sent_; }

  /// Packs small pieces into one record. Returns the number of bytes taken, and advances `i` and `at`.
  std::size_t encrypt_small(const std::vector<Segment>& segments, std::size_t& i, std::size_t& at) {
    std::size_t have = 0;
    while (i < segments.size() && have < record_.size()) {
      const std::size_t bytes = std::min(segments[i].bytes - at, record_.size() - have);
      std::memcpy(record_.data() + have, segments[i].data + at, bytes);
      have += bytes;
      at += bytes;
      if (at < segments[i].bytes) break;
      ++i;
      at = 0;
    }
    encrypt(record_.data(), have);
    return have;
  }

  void encrypt(const std::byte* data, std::size_t bytes) {
    ::ERR_clear_error();
    if (key_bytes_ >= options_.max_key_bytes) {
      if (::SSL_key_update(connection_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) throw ConnectionLost(problem());
      key_bytes_ = 0;
    }
    std::size_t written = 0;
    if (::SSL_write_ex(connection_.get(), data, bytes, &written) != 1 || written != bytes) {
      throw ConnectionLost("cannot encrypt: " + problem());
    }
    key_bytes_ += bytes;
  }

  void require_retry(int result, const char* action) {
    const int reason = ::SSL_get_error(connection_.get(), result);
    if (reason == SSL_ERROR_WANT_READ && lost_.empty()) return;
    if (!lost_.empty()) throw ConnectionLost(lost_);
    throw ConnectionLost(std::string(action) + ": " + problem());
  }

  struct Free {
    void operator()(SSL* connection) const { ::SSL_free(connection); }
  };

  int fd_;
  std::string key_;
  TlsOptions options_;
  std::unique_ptr<SSL, Free> connection_;
  bool is_open_ = false;
  std::vector<std::byte> gathered_;
  std::size_t sent_ = 0;  // number of bytes of gathered_ that were sent
  std::array<std::byte, kRecord> record_;
  // Records that OpenSSL has not read yet. Unused pages take no memory: a rank may have many streams.
  const std::unique_ptr<std::byte[]> come_{new std::byte[kSocketRead]};
  std::size_t come_begin_ = 0;
  std::size_t come_end_ = 0;
  std::uint64_t key_bytes_ = 0;
  std::string lost_;  // the reason why the socket can no longer be used; empty if it can
};

const std::string& key_of(SSL* connection) { return static_cast<TlsStream*>(SSL_get_app_data(connection))->key(); }

int bio_write(BIO* bio, const char* data, std::size_t bytes, std::size_t* taken) {
  static_cast<TlsStream*>(::BIO_get_data(bio))->gather(data, bytes);
  *taken = bytes;
  return 1;
}

int bio_read(BIO* bio, char* data, std::size_t bytes, std::size_t* got) {
  auto& stream = *static_cast<TlsStream*>(::BIO_get_data(bio));
  ::BIO_clear_retry_flags(bio);
  *got = 0;
  try {
    *got = stream.receive(data, bytes);
    if (*got == 0) ::BIO_set_retry_read(bio);
  } catch (const ConnectionLost& lost) {  // an exception must not pass through OpenSSL, which is C
    stream.note_lost(lost.what());
  }
  return *got > 0 ? 1 : 0;
}

}  // namespace

std::unique_ptr<Stream> make_tls_stream(int fd, End end, const std::string& key, const TlsOptions& options) {
  return std::make_unique<TlsStream>(fd, end, key, options);
}

}  // namespace lockstep::wire
