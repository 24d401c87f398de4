// SPDX-License-Identifier: Apache-2.0
// Draws charts as a picture with cairo, for papers, pages and mails. Module view chooses their contents.
#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/view/chart.h"

namespace lockstep::plot {

/// Draws `charts` below each other into `file`, in the format of its ending, .png or .svg.
/// Throws: UsageError for another ending; IoError if it cannot be written.
void draw_picture(const std::vector<view::Chart>& charts, const std::filesystem::path& file);

/// Throws: UsageError if the ending of `file` is neither .png nor .svg.
void require_picture(const std::filesystem::path& file);

}  // namespace lockstep::plot
