// SPDX-License-Identifier: Apache-2.0
// One page with a network and the runtime that computes it in a browser, without a server. No torch header.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::worker {

/// What all such pages have in common: web/ builds it into share/lockstep/network, beside the programs' folder.
struct DemoParts {
  std::string page;     ///< demo.html, with marks for what follows
  std::string runtime;  ///< ONNX Runtime's WebAssembly, gzipped
};

/// Throws: UsageError where this Lockstep was built without npm.
[[nodiscard]] DemoParts read_demo_parts();

/// Returns the page with an ONNX file in it.
[[nodiscard]] std::string demo_page(const DemoParts& parts, std::string_view model);

}  // namespace lockstep::worker
