// SPDX-License-Identifier: Apache-2.0
#include "comm/addresses/dist_url.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/store/host_brackets.h"
#include "lockstep/store/interface_choice.h"

namespace lockstep::comm {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kForms =
    "use env://, tcp://HOST:PORT or file:///PATH, the latter two with --rank and --world_size or ?rank=0&world_size=4";

/// The parts of "tcp://host:port?rank=0".
struct Url {
  std::string scheme;
  std::string place;
  std::map<std::string, std::string> query;
};

Url parse_url(const std::string& text) {
  const auto scheme_end = text.find("://");
  if (scheme_end == std::string::npos) throw UsageError(fmt::format("--dist_url '{}' is not an address", text), kForms);
  Url url{.scheme = text.substr(0, scheme_end), .place = {}, .query = {}};
  const std::string rest = text.substr(scheme_end + 3);
  const auto question = rest.find('?');
  url.place = rest.substr(0, question);
  std::size_t begin = question == std::string::npos ? rest.size() : question + 1;
  while (begin < rest.size()) {
    const std::size_t end = std::min(rest.find('&', begin), rest.size());
    const std::string entry = rest.substr(begin, end - begin);
    const auto equals = entry.find('=');
    if (equals == std::string::npos) {
      throw UsageError(fmt::format("--dist_url '{}': '{}' is not name=value", text, entry), kForms);
    }
    url.query[entry.substr(0, equals)] = entry.substr(equals + 1);
    begin = end + 1;
  }
  return url;
}

/// Sets one variable to the value in the address, or else in the arguments, or else in the environment.
void settle(Environment& environment, const char* name, const Url& url, const std::optional<std::string>& argument) {
  const bool is_rank = std::string(name) == "RANK";
  const auto in_url = url.query.find(is_rank ? "rank" : "world_size");
  if (in_url != url.query.end()) {
    environment[name] = in_url->second;
  } else if (argument) {
    environment[name] = *argument;
  } else if (environment.count(name) == 0) {
    throw UsageError(
        fmt::format("--dist_url {}:// needs {}, but none is given", url.scheme, is_rank ? "a rank" : "a world size"),
        fmt::format("add {}, or ?{}= to the address", is_rank ? "--rank R" : "--world_size W",
                    is_rank ? "rank" : "world_size"));
  }
}

void require_known_query(const Url& url) {
  for (const auto& [name, value] : url.query) {
    if (name == "rank" || name == "world_size" || (name == "host" && url.scheme == "file")) continue;
    throw UsageError(fmt::format("--dist_url {}:// does not support '{}'", url.scheme, name), kForms);
  }
}

void use_tcp(Environment& environment, const Url& url) {
  const auto colon = url.place.rfind(':');
  if (colon == std::string::npos || colon == 0 || url.place.back() == ':' || url.place.back() == ']') {
    throw UsageError(fmt::format("--dist_url tcp://{} has no host:port", url.place), kForms);
  }
  environment["MASTER_ADDR"] = url.place.substr(0, colon);
  environment["MASTER_PORT"] = url.place.substr(colon + 1);
}

void require_same(const char* option, const std::optional<std::string>& argument, int found, bool is_launched) {
  if (!argument || *argument == "-1" || *argument == std::to_string(found)) return;
  const std::string name = std::string(option).substr(2);
  if (is_launched) {
    throw UsageError(fmt::format("{} is {}, but the launcher set {}", option, *argument, found),
                     fmt::format("leave {} out: the launcher sets it for each rank", option));
  }
  log::note("{} {} is ignored: no launcher has started this process, so its {} is {}", option, *argument, name, found);
}

/// Plans from the environment; the arguments may only repeat what it says.
WorldPlan plan_from_environment(const DistArguments& arguments, const Environment& environment) {
  WorldPlan plan = discover_world(environment);
  const bool is_launched = plan.info.world_size > 1 || environment.count("RANK") != 0;
  require_same("--local_rank", arguments.local_rank, plan.info.local_rank, is_launched);
  require_same("--rank", arguments.rank, plan.info.rank, is_launched);
  require_same("--world_size", arguments.world_size, plan.info.world_size, is_launched);
  return plan;
}

/// Returns the IPv4 addresses to which the name of this host resolves. On Debian and Ubuntu this is often 127.0.1.1.
std::vector<std::string> addresses_of_own_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof(name) - 1);
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name, nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST] = {};
    getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
    addresses.emplace_back(text);
  }
  return addresses;
}

}  // namespace

WorldPlan plan_world(const DistArguments& arguments, const Environment& environment) {
  if (arguments.url.empty()) return plan_from_environment(arguments, environment);
  const Url url = parse_url(arguments.url);
  if (url.scheme == "env") return plan_from_environment(arguments, environment);
  if (url.scheme != "tcp" && url.scheme != "file") {
    throw UsageError(fmt::format("--dist_url '{}': there is no scheme {}://", arguments.url, url.scheme), kForms);
  }
  require_known_query(url);
  Environment own = environment;
  for (const char* name : {"LOCKSTEP_STORE", "LOCKSTEP_STORE_TOKEN", "TORCHELASTIC_USE_AGENT_STORE"}) own.erase(name);
  settle(own, "RANK", url, arguments.rank);
  settle(own, "WORLD_SIZE", url, arguments.world_size);
  if (url.scheme == "tcp") {
    use_tcp(own, url);
    return discover_world(own);
  }
  if (url.place.empty() || url.place.front() != '/') {
    throw UsageError(fmt::format("--dist_url file://{} has no absolute path", url.place), kForms);
  }
  // discover_world() needs some address; the file has the real one.
  own["MASTER_ADDR"] = url.query.count("host") != 0 ? url.query.at("host") : "file";
  own["MASTER_PORT"] = "1";
  WorldPlan plan = discover_world(own);
  if (plan.info.world_size == 1) return plan;
  plan.store = StoreKind::kFile;
  plan.file = url.place;
  plan.host = url.query.count("host") != 0 ? without_brackets(url.query.at("host")) : "";
  plan.port = 0;
  return plan;
}

std::string note_on_address(const Environment& environment, const RankInfo& info) {
  if (info.source != RankInfo().source) return "";
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (environment.count(name) == 0) continue;
    return fmt::format("{} is set, but RANK and WORLD_SIZE are not: this process is alone, the only rank of its job",
                       name);
  }
  return "";
}

std::optional<std::string> reachable_address(const std::vector<std::string>& addresses) {
  const auto is_local = [](const std::string& address) {
    const auto begins = [&](const char* prefix) { return address.rfind(prefix, 0) == 0; };
    return address.empty() || address == "::1" || begins("127.") || begins("169.254.") || begins("fe80:");
  };
  const auto found = std::find_if_not(addresses.begin(), addresses.end(), is_local);
  return found == addresses.end() ? std::nullopt : std::optional(*found);
}

std::string own_address() {
  std::vector<std::string> addresses = addresses_of_own_name();
  // The addresses that the default routes use: these two networks are reserved for documentation.
  for (const char* far : {"192.0.2.1", "2001:db8::1"}) {
    if (const auto own = store::address_towards(far)) addresses.push_back(*own);
  }
  for (const store::Interface& each : store::list_interfaces()) {
    if (!each.is_loopback) addresses.push_back(each.address);
  }
  return reachable_address(addresses).value_or(kLoopback);
}

}  // namespace lockstep::comm
