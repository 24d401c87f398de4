// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/plain_operators.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/TracerMode.h>

namespace lockstep::nn {
namespace {
thread_local int guards = 0;
}  // namespace

PlainOperators::PlainOperators() { ++guards; }
PlainOperators::~PlainOperators() { --guards; }

bool uses_plain_operators() { return guards > 0 || at::tracer::impl::is_dispatch_enabled(); }

}  // namespace lockstep::nn
