// SPDX-License-Identifier: Apache-2.0
// Builds a single page with a network and the runtime that executes it in a browser, without a server. Includes no
// torch header.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::worker {

/// The parts that all demo pages share. The build in web/ puts them into share/lockstep/network, beside the programs'
/// folder.
struct DemoParts {
  std::string page;     ///< demo.html, with placeholders for the other parts
  std::string runtime;  ///< ONNX Runtime's WebAssembly, gzipped
};

/// Throws: UsageError if this Lockstep was built without npm.
[[nodiscard]] DemoParts read_demo_parts();

/// Returns the page with the ONNX file `model` embedded.
[[nodiscard]] std::string demo_page(const DemoParts& parts, std::string_view model);

}  // namespace lockstep::worker
