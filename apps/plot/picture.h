// SPDX-License-Identifier: Apache-2.0
// Charts as a picture, drawn by cairo: for papers, pages and mails. What is drawn, view decides.
#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/view/chart.h"

namespace lockstep::plot {

/// Draws `charts` below each other into `file`, whose ending says what it becomes: .png or .svg.
/// Throws: UsageError for another ending; IoError where it cannot be written.
void draw_picture(const std::vector<view::Chart>& charts, const std::filesystem::path& file);

/// Throws: UsageError where the ending of `file` is neither .png nor .svg.
void require_picture(const std::filesystem::path& file);

}  // namespace lockstep::plot
