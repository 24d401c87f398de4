// SPDX-License-Identifier: Apache-2.0
// UCX as a network.
#include <fmt/format.h>

#include <utility>

#include "comm/backends/ucx/ucx.h"
#include "comm/backends/ucx/ucx_transport.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

class UcxNetwork final : public Network {
 public:
  UcxNetwork(World world, const std::string& store_host)
      : shared_(std::make_shared<UcxShared>(std::move(world), store_host)) {}

  std::string name() const override { return "ucx"; }
  const World& world() const override { return shared_->state.world; }

  std::shared_ptr<Transport> connect(const std::string& label) override {
    return std::make_shared<UcxTransport>(shared_, label);
  }

  void report_death(int suspect) noexcept override { shared_->state.report_death(suspect); }
  void abort() noexcept override { shared_->state.abort(); }

 private:
  const std::shared_ptr<UcxShared> shared_;
};

}  // namespace

std::string ucx_version() {
  const UcxLibrary& library = ucx_library();
  if (!library.problem.empty()) return "";
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  library.functions.get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::shared_ptr<Network> make_ucx_network(World world, const std::string& store_host) {
  const UcxLibrary& library = ucx_library();
  if (!library.problem.empty()) {
    throw UsageError(fmt::format("UCX cannot be loaded: {}", library.problem),
                     "install libucx0 (Debian's name) on every host, or leave --wire ucx out");
  }
  return std::make_shared<UcxNetwork>(std::move(world), store_host);
}

}  // namespace lockstep::comm
