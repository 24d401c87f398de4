// SPDX-License-Identifier: Apache-2.0
// The server's side of one client's connection. If a client sends invalid bytes or dies, only its own connection ends.
// Only the server's thread uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/attendance.h"
#include "store/entry.h"
#include "store/frames.h"
#include "store/server_state.h"
#include "store/stepped_timer.h"

namespace lockstep::store {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class From : std::uint8_t { kNetwork, kThisProcess };
  Connection(Stream::Socket socket, ServerState& state, From from);

  /// Starts serving the client. An `id` of 0 means a client in this process.
  void start(Strangers::Id id, std::string address);
  /// Closes a connection that has not proved that it knows the token, and counts it.
  void turn_away();
  /// Answers the wait if all its keys are set; else lists it under the next missing key.
  void go_on_waiting();
  /// Ends the connection if there is no memory for the next step.
  void give_up() noexcept;

 private:
  /// kKnocked: the client has sent a valid knock, and the connection is encrypted or about to be.
  enum class Phase : std::uint8_t { kStranger, kKnocked, kKnown };

  void close();
  void read();
  void take(Frames::Read read, std::string_view body);
  void take_step(const Entry::Step& step);
  bool enter(Phase phase);
  void encrypt();
  void handle(std::string_view body);
  void handle_wait(Verb verb, FrameReader& request);
  std::string answer_attend(FrameReader& request);
  bool holds(std::size_t bytes);
  void send(const std::string& frame, bool is_last = false);

  ServerState& state_;
  Frames frames_;
  SteppedTimer timer_;  // times the handshake, then a wait
  Attendance attendance_;
  Entry entry_;
  Strangers::Id id_ = 0;
  std::string address_;
  Phase phase_ = Phase::kStranger;
  bool wants_value_ = false;
  std::vector<std::string> wait_keys_;  // empty if the client does not wait
  std::string listed_under_;
  std::size_t held_ = 0;  // this connection's part of ServerState::in_flight
};

}  // namespace lockstep::store
