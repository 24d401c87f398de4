// SPDX-License-Identifier: Apache-2.0
// The bytes of an event file: the protocol buffers of TensorBoard's event.proto, summary.proto and hparams plug-in, and
// TFRecord, the frame around each record (length, payload, and a checksum of each). Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/view/event_file.h"

namespace lockstep::view {

/// Returns the CRC-32C (Castagnoli) of `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// Appends a whole record to `out`.
void append_record(std::string& out, std::string_view payload);

// Fields of Event.
constexpr int kFileVersion = 3;
constexpr int kSummary = 5;
constexpr int kSessionLog = 7;

/// Returns an Event whose field `field` is `content`, a string or the bytes of a message.
[[nodiscard]] std::string event_bytes(double wall_time, std::int64_t step, int field, std::string_view content);

/// Returns SessionLog START, which discards points written earlier for the event's step and later steps.
[[nodiscard]] std::string session_start_bytes();

[[nodiscard]] std::string scalars_bytes(const Scalars& points);
[[nodiscard]] std::string histogram_bytes(std::string_view tag, const Histogram& histogram);
[[nodiscard]] std::string text_bytes(std::string_view tag, std::string_view markdown);

struct ImageKind {
  std::int32_t width = 0;
  std::int32_t height = 0;
};
/// Returns the size from the header of a PNG or JPEG file; none if it is neither.
[[nodiscard]] std::optional<ImageKind> image_kind(std::string_view encoded);
[[nodiscard]] std::string image_bytes(std::string_view tag, const ImageKind& kind, std::string_view encoded);

[[nodiscard]] std::string hparams_start_bytes(const HyperParameters& settings, std::string_view group, double time);
[[nodiscard]] std::string hparams_end_bytes(bool success, double time);
/// Returns the columns of the HPARAMS page.
[[nodiscard]] std::string hparams_columns_bytes(const HyperParameters& settings,
                                                const std::vector<std::string>& metrics, double time);

}  // namespace lockstep::view
