// SPDX-License-Identifier: Apache-2.0
#include "dashboard/routes.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "dashboard/access.h"
#include "dashboard/api_path.h"
#include "dashboard/assets.h"
#include "dashboard/process.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_below.h"
#include "lockstep/base/number.h"
#include "lockstep/base/printable.h"
#include "lockstep/launch/child.h"

namespace lockstep::dashboard {
namespace {

using http::Request;
using http::Response;
using Json = nlohmann::json;

constexpr int kMostStreams = 12;
constexpr std::size_t kMostOfNetworkPage = 64 << 20;  // bytes of a file
constexpr auto kMoment = std::chrono::milliseconds(300);
constexpr auto kTimeToVerify = std::chrono::hours(24);
constexpr const char* kWithoutNpm = R"html(<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Lockstep</title>
<main><h1>This lockstep was built without npm</h1>
<p>The page of runs is built from the folder web/ of the sources with Node.js 18, 20, 22 or newer and npm. Install them
(Debian: <code>apt install nodejs npm</code>), and configure and build again:</p>
<pre>cmake --preset release &amp;&amp; cmake --build build/release</pre>
<p>What the page would show is here as JSON. TOKEN is what comes after <code>#token=</code> in the address that lockstep
printed, and ADDRESS what comes before it:</p>
<pre>curl -H 'Authorization: Bearer TOKEN' ADDRESSapi/run/0/state
curl -H 'Authorization: Bearer TOKEN' ADDRESSapi/run/0/live</pre>
</main></html>
)html";

// Removes users, passwords and queries from URLs in all settings, events and logs of a run.
void leave_secrets_out(Json& json) {
  if (json.is_string()) {
    auto& words = json.get_ref<std::string&>();
    if (words.find(':') != std::string::npos) words = text::without_secrets(words);
  } else if (json.is_structured()) {
    for (Json& each : json) leave_secrets_out(each);
  }
}

std::string text_of(Json json) {
  leave_secrets_out(json);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Response json(Json json) { return {.type = "application/json; charset=utf-8", .body = text_of(std::move(json))}; }

Response refuse(int status, const char* why) { return {.status = status, .body = std::string(why) + "\n"}; }

const char* type_of(const std::string& path) {
  const auto ends = [&](const char* end) { return path.ends_with(end); };
  if (ends(".html")) return "text/html; charset=utf-8";
  if (ends(".js")) return "text/javascript; charset=utf-8";
  if (ends(".css")) return "text/css; charset=utf-8";
  if (ends(".svg")) return "image/svg+xml";
  if (ends(".png")) return "image/png";
  if (ends(".gz")) return "application/octet-stream";
  return "image/jpeg";
}

Response page(const std::string& path) {
  const auto found = assets().find(path);
  if (found != assets().end()) return {.type = type_of(path), .body = found->second};
  if (path == "index.html") return {.type = type_of(path), .body = kWithoutNpm};
  return refuse(404, "there is no such page");
}

/// The policy for a frame within the page: it may compile WebAssembly, which the page itself may not.
constexpr const char* kNetworkPolicy =
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// The page that runs an exported network is read from a folder, because its runtime is large. `web/` builds it.
Response network_page(const std::string& path) {
  const std::filesystem::path root = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  auto content = read_below(root / "share/lockstep", path, kMostOfNetworkPage);
  if (!content) return refuse(404, "there is no such page: this lockstep was built without npm");
  return {.type = type_of(path), .body = std::move(*content), .headers = {{"Content-Security-Policy", kNetworkPolicy}}};
}

double number(const Request& request, const char* name, double fallback) {
  const auto found = request.values.find(name);
  if (found == request.values.end()) return fallback;
  const double value = text::parse_number(found->second).value_or(fallback);
  return value > -1e15 && value < 1e15 ? value : fallback;
}

Response curve(RunFolder& run, const Request& request) {
  const CurveWindow window{.low = static_cast<std::int64_t>(number(request, "low", -1e15)),
                           .high = static_cast<std::int64_t>(number(request, "high", 1e15)),
                           .points = static_cast<std::size_t>(std::clamp(number(request, "points", 2000), 4.0, 2e4))};
  return json(run.curve(request.value("name"), window, std::clamp(number(request, "smooth", 0), 0.0, 0.999)));
}

Response log_part(RunFolder& run, const Request& request) {
  return json(run.log_part({.attempt = static_cast<int>(std::clamp(number(request, "attempt", 0), 0.0, 1e9)),
                            .rank = static_cast<int>(std::clamp(number(request, "rank", 0), 0.0, 1e9)),
                            .stream = request.value("stream"),
                            .from = static_cast<std::int64_t>(number(request, "from", -1))}));
}

Response picture(RunFolder& run, const Request& request) {
  auto content = run.picture(request.value("name"));
  if (!content) return refuse(404, "there is no such image");
  return {.type = type_of(request.value("name")), .body = std::move(*content)};
}

Response network(RunFolder& run, const Request& /*request*/) {
  auto content = run.network();
  if (!content) return refuse(404, "there is no model.onnx in the run's folder");
  return {.type = "application/octet-stream", .body = std::move(*content)};
}

using Answer = std::function<Response(RunFolder&, const Request&)>;

const std::map<std::string, Answer, std::less<>>& run_answers() {
  static const std::map<std::string, Answer, std::less<>> answers = {
      {"state", [](RunFolder& run, const Request&) { return json(run.state()); }},
      {"live", [](RunFolder& run, const Request&) { return json(run.live()); }},
      {"timeline",
       [](RunFolder& run, const Request& request) {
         return json(run.timeline(std::clamp(number(request, "seconds", 2), 0.01, 600.0)));
       }},
      {"curve", &curve},
      {"log", &log_part},
      {"network", &network},
      {"picture", &picture}};
  return answers;
}

/// Returns the output of `lockstep checkpoint verify`, run by lockstep-worker, which can read a checkpoint.
Json verify_checkpoint(const std::filesystem::path& checkpoint) {
  const auto program = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lockstep-worker").string();
  try {
    const ChildResult result =
        run_child({program, "checkpoint", "verify", std::filesystem::absolute(checkpoint).string()}, kTimeToVerify);
    return {{"whole", result.code == 0}, {"text", text::printable(result.out + result.err)}};
  } catch (const Error& error) {
    return {{"whole", false}, {"text", error.message()}};
  }
}

}  // namespace

Routes::Routes(const std::vector<std::filesystem::path>& runs, std::string token, std::string host)
    : token_(std::move(token)), host_(std::move(host)) {
  for (const auto& run : runs) runs_.push_back(std::make_unique<RunFolder>(run));
}

bool Routes::is_named(const Request& request) const {
  return is_allowed_host(request.host, host_) && is_own_origin(request.origin, request.host);
}

bool Routes::is_known(const Request& request) const { return is_named(request) && is_equal(request.token, token_); }

Response Routes::answer(const Request& request) {
  if (!is_named(request)) return refuse(403, "open the address that lockstep printed");
  const bool gets = request.method == "GET";
  if (gets && request.path == "/") return page("index.html");
  if (gets && is_asset_path(request.path)) return page(request.path.substr(1));
  if (gets && is_network_path(request.path)) return network_page(request.path.substr(1));
  if (!is_known(request)) return refuse(403, "open the address that lockstep printed, with its token");
  return answer_api(request);
}

Response Routes::answer_api(const Request& request) {
  const bool gets = request.method == "GET";
  if (gets && request.path == "/api/runs") return runs();
  if (gets && request.path == "/api/events") return stream();
  const auto path = parse_run_path(request.path);
  if (!path || static_cast<std::size_t>(path->run) >= runs_.size()) return refuse(404, "there is no such run");
  RunFolder& run = *runs_[static_cast<std::size_t>(path->run)];
  if (gets && path->resource == "digests") {
    const double other = number(request, "with", -1);
    if (!(other >= 0 && other < static_cast<double>(runs_.size()))) return refuse(404, "there is no such run");
    return json(run.compare(*runs_[static_cast<std::size_t>(other)]));
  }
  if (request.method == "POST" && path->resource == "verify") return verify(run, request.value("name"));
  const auto found = run_answers().find(path->resource);
  if (!gets || found == run_answers().end()) return refuse(404, "a run has no such page");
  return found->second(run, request);
}

Response Routes::runs() const {
  Json list = Json::array();
  for (const auto& run : runs_) list.push_back({{"name", run->name()}, {"folder", run->folder().string()}});
  return json(list);
}

Response Routes::verify(const RunFolder& run, const std::string& name) {
  const auto checkpoint = run.checkpoint(name);
  if (!checkpoint) return refuse(404, "there is no such checkpoint");
  const std::unique_lock only(verifying_, std::try_to_lock);
  if (!only.owns_lock()) return refuse(409, "another checkpoint is being verified; wait for it");
  return json(verify_checkpoint(*checkpoint));
}

std::string Routes::moment() {
  Json runs = Json::array();
  for (const auto& run : runs_) runs.push_back(run->live());
  return "event: moment\ndata: " + text_of({{"runs", std::move(runs)}, {"machine", read_machine_use()}}) + "\n\n";
}

Response Routes::stream() {
  const std::shared_ptr<void> place(nullptr, [this](void*) { --streams_; });
  if (++streams_ > kMostStreams) return refuse(503, "too many pages are open; close one");
  return {.type = "text/event-stream", .next = [this, place, begun = false]() mutable {
            if (std::exchange(begun, true)) std::this_thread::sleep_for(kMoment);
            return stops_ ? std::string() : moment();
          }};
}

}  // namespace lockstep::dashboard
