// SPDX-License-Identifier: Apache-2.0
// Draws charts as an image with cairo. The view module chooses their contents.
#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/view/chart.h"

namespace lockstep::plot {

/// Draws `charts` one below the other into `file`, in the format of its extension, .png or .svg.
/// Throws: UsageError for any other extension; IoError if the file cannot be written.
void draw_picture(const std::vector<view::Chart>& charts, const std::filesystem::path& file);

/// Throws: UsageError if the extension of `file` is neither .png nor .svg.
void require_picture(const std::filesystem::path& file);

}  // namespace lockstep::plot
