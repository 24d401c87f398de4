// SPDX-License-Identifier: Apache-2.0
#include "train/report/metrics_server.h"

#include <utility>

namespace lockstep::train {
namespace {

constexpr std::size_t kPlaces = 8;

http::Response answer(const http::Request& request, const std::function<std::string()>& page) {
  if (request.method != "GET" || request.path != "/metrics") return {.status = 404, .body = "see /metrics\n"};
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = page()};
}

}  // namespace

MetricsServer::MetricsServer(const ServerAddress& address, std::function<std::string()> page)
    : server_({.host = address.host,
               .port = address.port,
               .next_step = "choose another port with --metrics PORT; 0 takes any that is free",
               .places = kPlaces,
               .answer = [page = std::move(page)](const http::Request& request) { return answer(request, page); }}),
      url_(server_.url() + "/metrics") {}

}  // namespace lockstep::train
