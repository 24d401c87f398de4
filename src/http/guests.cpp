// SPDX-License-Identifier: Apache-2.0
#include "http/guests.h"

namespace lockstep::http {

std::vector<int> Guests::add(int socket, TimePoint now) {
  guests_[socket] = {.since = now, .number = next_++};
  std::map<std::size_t, int> strangers;  // sockets by age
  for (const auto& [each, guest] : guests_) {
    if (!guest.is_known && !guest.is_gone) strangers[guest.number] = each;
  }
  std::vector<int> out;
  for (auto at = strangers.begin(); strangers.size() - out.size() > places_; ++at) {
    guests_[at->second].is_gone = true;
    out.push_back(at->second);
  }
  return out;
}

void Guests::ask(int socket, bool is_known, TimePoint now) {
  const auto found = guests_.find(socket);
  if (found == guests_.end()) return;
  found->second.is_served = true;
  found->second.is_known = found->second.is_known || is_known;
  found->second.since = now;
}

void Guests::answered(int socket, TimePoint now) {
  const auto found = guests_.find(socket);
  if (found == guests_.end()) return;
  found->second.is_served = false;
  found->second.since = now;
}

bool Guests::is_late(const Guest& guest, TimePoint now) {
  if (guest.is_served) return !guest.is_known && now - guest.since >= kAnswerTime;
  return now - guest.since >= kHeadTime;
}

std::vector<int> Guests::late(TimePoint now) {
  std::vector<int> out;
  for (auto& [socket, guest] : guests_) {
    if (guest.is_gone || !is_late(guest, now)) continue;
    guest.is_gone = true;
    out.push_back(socket);
  }
  return out;
}

std::vector<int> Guests::all() const {
  std::vector<int> out;
  for (const auto& [socket, guest] : guests_) out.push_back(socket);
  return out;
}

}  // namespace lockstep::http
