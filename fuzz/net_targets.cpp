// SPDX-License-Identifier: Apache-2.0
#include "targets.h"

#include <string>

#include "comm/addresses/address_file.h"
#include "lockstep/base/printable.h"
#include "store/wire.h"

namespace lockstep::fuzz {
namespace {

// Keeps the compiler from removing the reads.
volatile unsigned net_bytes_read = 0;

void note(std::string_view text) {
  for (const char c : text) net_bytes_read = net_bytes_read + static_cast<unsigned char>(c);
}

}  // namespace

void store_frame(std::string_view bytes) {
  store::FrameReader keys(bytes);
  net_bytes_read = net_bytes_read + keys.byte() + static_cast<unsigned>(keys.number());
  for (const std::string& key : keys.strings()) note(key);
  store::FrameReader values(bytes);
  net_bytes_read = net_bytes_read + values.byte();
  for (int field = 0; field < 3; ++field) note(values.string());
  if (bytes.size() >= store::kHeaderBytes) net_bytes_read = net_bytes_read + store::read_length(bytes.data());
}

void address_file(std::string_view bytes) {
  const auto address = comm::parse_address(bytes);
  if (!address) return;
  require(address->port != 0 && text::printable_line(address->host) == address->host);
  note(address->token);
}

void shown_words(std::string_view bytes) {
  const std::string shown = text::printable(text::without_secrets(bytes));
  for (const char c : shown) require(c == '\n' || c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F));
  require(text::printable(shown) == shown);
  require(text::printable_line(shown).find('\n') == std::string::npos);
  note(shown);
}

}  // namespace lockstep::fuzz
