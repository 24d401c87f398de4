// SPDX-License-Identifier: Apache-2.0
// Computes SHA-256 with OpenSSL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace lockstep::checkpoint {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);
  /// Returns 64 hexadecimal digits; nothing may be added afterwards.
  [[nodiscard]] std::string hex();

 private:
  evp_md_ctx_st* context_;
};

}  // namespace lockstep::checkpoint
