// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/local/local_backend.h"

#include <ATen/ops/zeros.h>

#include <cstring>

#include "comm/core/moves.h"
#include "comm/core/tree_reduce.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

class LocalBackend final : public Backend {
 public:
  std::string name() const override { return "local"; }
  std::unique_ptr<Runner> open_channel(int /*peer*/, bool /*sending*/) override {
    throw InternalError("a world of one has no channels");
  }
  at::Tensor allocate_bucket(std::int64_t numel, c10::ScalarType dtype) override { return at::zeros({numel}, dtype); }
  void abort(const std::string& /*reason*/) noexcept override {}
  void leave() noexcept override {}

 protected:
  void meet(const Collective& /*collective*/) override {}

  void reduce(const Collective& collective) override {
    const int divisor = divisor_of(collective.call, 1);
    const bool divides = op_of(collective.call) == ReduceOp::kMean && divisor > 1;
    if (!divides && collective.output == collective.data) return;
    tree_reduce({dtype_of(collective.call), op_of(collective.call), divisor}, {{collective.data, {0, divisor}}},
                {collective.output}, collective.call.numel);
  }

  void move(const Collective& collective) override {
    for (const Move& part : moves_to(plan_of(collective, 1), 0)) {
      if (collective.output + part.place == collective.data + part.offset) continue;
      std::memcpy(collective.output + part.place, collective.data + part.offset, part.bytes);
    }
  }
};

}  // namespace

std::unique_ptr<Backend> make_local_backend() { return std::make_unique<LocalBackend>(); }

}  // namespace lockstep::comm
