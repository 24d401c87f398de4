// SPDX-License-Identifier: Apache-2.0
// `lockstep dashboard`: the live page of runs. lockstep executes it, on its own or alongside a run (--dashboard).
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "common/cli.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/log.h"
#include "lockstep/base/standard_streams.h"
#include "lockstep/base/whole_number.h"
#include "lockstep/dashboard/dashboard.h"
#include "lockstep/store/host_brackets.h"

namespace lockstep::dashboard {
namespace {

struct Arguments {
  std::vector<std::string> runs;
  std::string listen = "127.0.0.1:0";
  int launcher = 0;  // process id of the launcher; 0: a user started the command
};

bool parse(Arguments& arguments, const std::vector<std::string>& words) {
  CLI::App app;
  cli::prepare(app,
               {.name = "lockstep dashboard",
                .description = "Serve a live page of runs, finished or in progress: curves, ranks, collectives, "
                               "verdicts, checkpoints, settings and logs. Prints the page's address, which includes a "
                               "secret; without the secret, no run data is served. Ctrl-C stops the server.",
                .examples = {"lockstep dashboard runs/first",
                             "lockstep dashboard runs/first runs/second --listen 127.0.0.1:8080"}});
  app.add_option("RUN_DIR", arguments.runs, "run folders, or log folders of lockstep run")->required();
  app.add_option("--listen", arguments.listen,
                 "address to serve on; a port without a host means loopback, and port 0 picks any free port")
      ->type_name("HOST:PORT");
  app.add_option("--of-launcher", arguments.launcher,
                 "process ID of the launcher; the dashboard exits when the launcher does")
      ->group("");
  return cli::parse(app, words);
}

void set_address(DashboardOptions& options, const std::string& listen) {
  const auto colon = listen.rfind(':');
  const std::string host = colon == std::string::npos ? "" : without_brackets(listen.substr(0, colon));
  if (!host.empty()) options.host = host;
  const std::string port = colon == std::string::npos ? listen : listen.substr(colon + 1);
  options.port = static_cast<int>(whole_number("--listen", port, {.least = 0, .most = 65535}));
}

void require_folders(const std::vector<std::string>& runs) {
  for (const std::string& run : runs) {
    std::error_code problem;
    if (std::filesystem::is_directory(run, problem)) continue;
    throw DataError(fmt::format("there is no folder {}", run), "pass a run folder, such as runs/first");
  }
}

// Lowers the priority of this process, so that it takes only processor time that the run leaves idle. Ends this process
// when the launcher ends for any reason.
void live_beside(int launcher) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != launcher) std::exit(0);
  (void)::setpriority(PRIO_PROCESS, 0, 19);
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

// Prints the address. Alongside a run, standard output belongs to the run.
void tell(const DashboardOptions& options, const std::string& url, std::FILE* out) {
  if (!has_page()) {
    log::note(
        "this lockstep was built without npm, so the dashboard is a plain page that says how to build the full one");
  }
  if (!is_loopback(options.host)) {
    log::warn("{} is open to the network: anyone who intercepts a request can see the page and its secret",
              options.host);
  }
  print_to(out, "dashboard  {}\n", url);
  std::fflush(out);
}

// Ends the process soon, even if an unfinished response, such as the verification of a checkpoint, would take minutes.
void end_soon() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    ::_exit(0);
  }).detach();
}

int run(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!parse(arguments, words)) return 0;
  sigset_t ends;
  sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread starts
  if (arguments.launcher != 0) {
    live_beside(arguments.launcher);
  } else {
    require_folders(arguments.runs);
  }
  DashboardOptions options{.runs = {arguments.runs.begin(), arguments.runs.end()}};
  set_address(options, arguments.listen);
  const Dashboard dashboard(options);
  tell(options, dashboard.url(), arguments.launcher != 0 ? stderr : stdout);
  int signal = 0;
  do {
    ::sigwait(&ends, &signal);
  } while (arguments.launcher != 0 && signal == SIGINT);  // Ctrl-C is for the run, which saves before it ends
  if (arguments.launcher != 0) ::_exit(0);  // at once: a reader of the launcher's output also waits for this process
  end_soon();
  return 0;
}

}  // namespace
}  // namespace lockstep::dashboard

int main(int argc, char** argv) {
  lockstep::fault::this_is_lockstep();
  return lockstep::guarded_main([&] { return lockstep::dashboard::run({argv + 1, argv + argc}); });
}
