// Rendezvous without libtorch: a store that serves, and a client that queries it.
#include <fmt/format.h>
#include <lockstep/base/error.h>
#include <lockstep/base/version.h>
#include <lockstep/store/store.h>

static_assert(LOCKSTEP_VERSION >= 100, "0.1.0 or later");

int main() {
  return lockstep::guarded_main([] {
    const std::string token = lockstep::make_token();
    const lockstep::StoreServer server({.token = token});
    const auto store = lockstep::connect_store({.port = server.port(), .token = token}, std::chrono::seconds(10));
    store->set("greeting", "hello");
    fmt::print("{} from Lockstep {}\n", store->get("greeting", std::chrono::seconds(10)), lockstep::kVersion);
    return 0;
  });
}
