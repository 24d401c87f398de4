// SPDX-License-Identifier: Apache-2.0
// An experiment in the form of the origin: a folder whose config.yml has sections in capitals. They become this
// program's settings, each with the file and line it comes from.
#pragma once

#include <filesystem>

#include "lockstep/base/config.h"

namespace lockstep::captioning {

/// Keys in capitals are the origin's (X-LAN's and PureT's lib/config.py); all others are this program's own, may stand
/// beside them, and win. What is not in the file keeps this program's default. Keys without a meaning here are said in
/// one note. No pickle is read: captions and document frequencies of .pkl files are left out, with a note that says
/// what to give instead.
///
/// Throws: DataError where the file is missing; UsageError naming file and line of a key that the origin does not have
/// (with the nearest one), of a value of another type, or of one that there is nothing for here.
[[nodiscard]] ConfigTree read_experiment(const std::filesystem::path& file);

}  // namespace lockstep::captioning
