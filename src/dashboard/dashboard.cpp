// SPDX-License-Identifier: Apache-2.0
#include "lockstep/dashboard/dashboard.h"

#include "dashboard/access.h"
#include "dashboard/assets.h"
#include "dashboard/routes.h"
#include "lockstep/http/server.h"

namespace lockstep::dashboard {
namespace {

constexpr std::size_t kPlaces = 32;

std::vector<std::pair<std::string, std::string>> safe_headers() {
  return {{"Content-Security-Policy",
           "default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
           "object-src 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

}  // namespace

class Dashboard::Impl {
 public:
  Impl(const DashboardOptions& options, const std::string& token)
      : routes_(options.runs, token, options.host),
        server_({.host = options.host,
                 .port = options.port,
                 .next_step = "choose another port, or 0 for any free port",
                 .places = kPlaces,
                 .headers = safe_headers(),
                 .is_known = [this](const http::Request& request) { return routes_.is_known(request); },
                 .answer = [this](const http::Request& request) { return routes_.answer(request); }}) {}

  ~Impl() { routes_.stop(); }

  [[nodiscard]] const http::Server& server() const { return server_; }

 private:
  Routes routes_;
  http::Server server_;
};

Dashboard::Dashboard(const DashboardOptions& options) {
  const std::string token = options.token.empty() ? new_token() : options.token;
  impl_ = std::make_unique<Impl>(options, token);
  url_ = impl_->server().url() + "/#token=" + token;
}

Dashboard::~Dashboard() = default;

int Dashboard::port() const noexcept { return impl_->server().port(); }

bool has_page() { return !assets().empty(); }

}  // namespace lockstep::dashboard
