// SPDX-License-Identifier: Apache-2.0
#include "dashboard/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "dashboard/access.h"
#include "dashboard/assets.h"
#include "dashboard/process.h"
#include "dashboard/verify.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/number.h"

namespace lockstep::dashboard {
namespace {

using Json = nlohmann::json;
using Handled = httplib::Server::HandlerResponse;

constexpr int kMostStreams = 12;
constexpr std::uint64_t kMostPictureBytes = 32U << 20U;
constexpr auto kMoment = std::chrono::milliseconds(300);
constexpr const char* kWithoutNpm = R"html(<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Lockstep</title>
<main><h1>This lockstep was built without npm</h1>
<p>The page of runs is built from the folder web/ of the sources with Node.js 18, 20, 22 or newer and npm. Install them
(Debian: <code>apt install nodejs npm</code>), and configure and build again:</p>
<pre>cmake --preset release &amp;&amp; cmake --build build/release</pre>
<p>What the page would show is here as JSON: <a href="/api/run/0/state">state</a>, <a href="/api/run/0/live">live</a>.</p>
</main></html>
)html";

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void send(httplib::Response& response, const Json& json) {
  response.set_content(text_of(json), "application/json; charset=utf-8");
}

void refuse(httplib::Response& response, int status, const char* why) {
  response.status = status;
  response.set_content(std::string(why) + "\n", "text/plain; charset=utf-8");
}

std::string cookie_name(int port) { return fmt::format("lockstep_{}", port); }

const char* type_of(const std::string& path) {
  const auto ends = [&](const char* end) { return path.ends_with(end); };
  if (ends(".html")) return "text/html; charset=utf-8";
  if (ends(".js")) return "text/javascript; charset=utf-8";
  if (ends(".css")) return "text/css; charset=utf-8";
  if (ends(".svg")) return "image/svg+xml";
  if (ends(".png")) return "image/png";
  return "image/jpeg";
}

void send_page(httplib::Response& response, const std::string& path) {
  const auto found = assets().find(path);
  if (found != assets().end()) {
    response.set_content(found->second, type_of(path));
  } else if (path == "index.html") {
    response.set_content(kWithoutNpm, type_of(path));
  } else {
    refuse(response, 404, "there is no such page");
  }
}

double number(const httplib::Request& request, const char* name, double fallback) {
  if (!request.has_param(name)) return fallback;
  const double value = text::parse_number(request.get_param_value(name)).value_or(fallback);
  return value > -1e15 && value < 1e15 ? value : fallback;
}

httplib::Headers safe_headers() {
  return {{"Content-Security-Policy",
           "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

}  // namespace

Routes::Routes(const std::vector<std::filesystem::path>& runs, std::string token, std::string host)
    : token_(std::move(token)), host_(std::move(host)) {
  for (const auto& run : runs) runs_.push_back(std::make_unique<RunFolder>(run));
}

// The token of the URL becomes a cookie, and leaves the address line.
bool Routes::admits(const Request& request, Response& response, int port) const {
  const std::string host = request.get_header_value("Host");
  const bool is_named = is_allowed_host(host, host_) && is_own_origin(request.get_header_value("Origin"), host);
  const std::string given = cookie(request.get_header_value("Cookie"), cookie_name(port));
  if (is_named && is_equal(given, token_)) return true;
  if (!is_named || request.path != "/" || request.method != "GET" ||
      !is_equal(request.get_param_value("token"), token_)) {
    refuse(response, 403, "open the address that lockstep printed, with its token");
    return false;
  }
  response.set_header("Set-Cookie", fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name(port), token_));
  response.set_redirect("/", 303);
  return false;
}

void Routes::add_to(httplib::Server& server, const int& port) {
  server.set_default_headers(safe_headers());
  server.set_pre_routing_handler([this, &port](const Request& request, Response& response) {
    return admits(request, response, port) ? Handled::Unhandled : Handled::Handled;
  });
  server.set_exception_handler([](const Request&, Response& response, std::exception_ptr) {
    refuse(response, 500, "the run's files could not be read; try again");
  });
  add_pages(server);
  add_run_pages(server);
  add_actions(server);
}

void Routes::add_pages(httplib::Server& server) {
  server.Get("/", [](const Request& request, Response& response) {
    // Whoever opens the printed address a second time has the cookie already.
    if (request.has_param("token")) return response.set_redirect("/", 303);
    send_page(response, "index.html");
  });
  server.Get("/(assets/[a-z._-]+)",
             [](const Request& request, Response& response) { send_page(response, request.matches[1]); });
  server.Get("/api/runs", [this](const Request&, Response& response) {
    Json runs = Json::array();
    for (const auto& run : runs_) runs.push_back({{"name", run->name()}, {"folder", run->folder().string()}});
    send(response, runs);
  });
  server.Get("/api/events", [this](const Request&, Response& response) { stream(response); });
}

RunFolder* Routes::run_of(const Request& request, Response& response) {
  const auto at = static_cast<std::size_t>(std::atoi(request.matches[1].str().c_str()));
  if (at < runs_.size()) return runs_[at].get();
  refuse(response, 404, "there is no such run");
  return nullptr;
}

void Routes::add_run_pages(httplib::Server& server) {
  const auto get = [&](const std::string& what, auto answer) {
    server.Get("/api/run/([0-9]{1,6})/" + what, [this, answer](const Request& request, Response& response) {
      if (RunFolder* run = run_of(request, response)) answer(*run, request, response);
    });
  };
  get("state", [](RunFolder& run, const Request&, Response& response) { send(response, run.state()); });
  get("live", [](RunFolder& run, const Request&, Response& response) { send(response, run.live()); });
  get("curve", [](RunFolder& run, const Request& request, Response& response) {
    const CurveWindow window{.low = static_cast<std::int64_t>(number(request, "low", -1e15)),
                             .high = static_cast<std::int64_t>(number(request, "high", 1e15)),
                             .points = static_cast<std::size_t>(std::clamp(number(request, "points", 2000), 4.0, 2e4))};
    send(response,
         run.curve(request.get_param_value("name"), window, std::clamp(number(request, "smooth", 0), 0.0, 0.999)));
  });
  get("timeline", [](RunFolder& run, const Request& request, Response& response) {
    send(response, run.timeline(std::clamp(number(request, "seconds", 2), 0.01, 600.0)));
  });
  get("log", [](RunFolder& run, const Request& request, Response& response) {
    send(response, run.log_part({.attempt = static_cast<int>(std::clamp(number(request, "attempt", 0), 0.0, 1e9)),
                                 .rank = static_cast<int>(std::clamp(number(request, "rank", 0), 0.0, 1e9)),
                                 .stream = request.get_param_value("stream"),
                                 .from = static_cast<std::int64_t>(number(request, "from", -1))}));
  });
  get("picture", [](RunFolder& run, const Request& request, Response& response) {
    const auto file = run.picture(request.get_param_value("name"));
    if (!file) return refuse(response, 404, "there is no such picture");
    response.set_content(FileSystem::system().read(*file, kMostPictureBytes), type_of(file->string()));
  });
}

void Routes::add_actions(httplib::Server& server) {
  server.Post("/api/run/([0-9]{1,6})/verify", [this](const Request& request, Response& response) {
    RunFolder* run = run_of(request, response);
    if (run == nullptr) return;
    const auto checkpoint = run->checkpoint(request.get_param_value("name"));
    if (!checkpoint) return refuse(response, 404, "there is no such checkpoint");
    const std::unique_lock only(verifying_, std::try_to_lock);
    if (!only.owns_lock()) return refuse(response, 409, "another checkpoint is being verified; wait for it");
    send(response, verify_checkpoint(*checkpoint));
  });
}

std::string Routes::moment() {
  Json runs = Json::array();
  for (const auto& run : runs_) runs.push_back(run->live());
  return "event: moment\ndata: " + text_of({{"runs", std::move(runs)}, {"machine", read_machine_use()}}) + "\n\n";
}

// One thread of the pool for each page that is open; the others stay for what the pages ask.
void Routes::stream(Response& response) {
  if (streams_ >= kMostStreams) return refuse(response, 503, "too many pages are open; close one");
  ++streams_;
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, begun = false](std::size_t, httplib::DataSink& sink) mutable {
        if (std::exchange(begun, true)) std::this_thread::sleep_for(kMoment);
        if (stops_) return false;
        const std::string text = moment();
        return sink.is_writable() && sink.write(text.data(), text.size());
      },
      [this](bool) { --streams_; });
}

}  // namespace lockstep::dashboard
