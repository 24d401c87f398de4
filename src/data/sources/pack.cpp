// SPDX-License-Identifier: Apache-2.0
// Packs a source: several threads decode, one thread writes, in the source's order.
#include "lockstep/data/sources/pack.h"

#include <fmt/format.h>

#include <memory>
#include <system_error>

#include "data/sources/files/ordered_work.h"
#include "lockstep/base/error.h"
#include "lockstep/data/sources/tar_shards.h"

namespace lockstep {
namespace {

/// Writes one prepared sample.
using Append = std::function<void()>;

void require_good(const PackReport& report, std::int64_t size, const PackOptions& options) {
  if (report.samples > 0) return;
  throw DataError(fmt::format("none of {} images could be packed into {}", size, options.out.string()),
                  report.bad.empty() ? "" : "the first: " + report.bad.front());
}

PackReport run(const ImageSource& source, const PackOptions& options,
               const std::function<Append(std::int64_t)>& prepare) {
  PackReport report;
  data::OrderedWork<Append> work(source.size(), options.workers, prepare);
  for (std::int64_t i = 0; i < source.size(); ++i) {
    try {
      work.next()();
      ++report.samples;
    } catch (const DataError& bad) {
      if (!options.skip_bad) throw;
      report.bad.push_back(bad.message());
    }
    if (options.progress) options.progress(i + 1);
  }
  require_good(report, source.size(), options);
  return report;
}

PackReport pack_file(const ImageSource& source, const PackOptions& options) {
  PackedWriter writer(options.out, options.packed);
  PackReport report = run(source, options, [&](std::int64_t index) -> Append {
    auto sample = std::make_shared<PackedSample>(writer.prepare(source.get(index)));
    return [&writer, sample] { writer.append(std::move(*sample)); };
  });
  writer.finish();
  report.bytes = writer.bytes();
  report.files = {options.out};
  return report;
}

/// Calls `write`, () -> PackReport. If it throws, the shards that were already complete are removed.
template <class Write>
PackReport whole_or_nothing(const TarWriter& writer, const Write& write) {
  try {
    return write();
  } catch (...) {
    std::error_code ignored;
    for (const std::filesystem::path& file : writer.files()) std::filesystem::remove(file, ignored);
    throw;
  }
}

PackReport pack_shards(const ImageSource& source, const PackOptions& options) {
  if (options.packed.max_side > 0) {
    throw UsageError("tar shards keep the files' bytes: their images cannot be shrunk", "omit --max-side");
  }
  TarWriter writer(options.out, {.shard_bytes = options.shard_bytes, .class_names = options.packed.class_names});
  const auto prepare = [&](std::int64_t index) -> Append {
    auto sample = std::make_shared<const std::string>(TarWriter::prepare(source.get(index), index));
    return [&writer, sample] { writer.append(*sample); };
  };
  PackReport report = whole_or_nothing(writer, [&] {
    PackReport made = run(source, options, prepare);
    writer.finish();
    return made;
  });
  report.bytes = writer.bytes();
  report.files = writer.files();
  return report;
}

}  // namespace

PackReport pack_images(const ImageSource& source, PackOptions options) {
  if (options.workers < 1)
    throw UsageError(fmt::format("cannot pack with {} workers; at least 1 is needed", options.workers));
  if (options.format == PackFormat::kPacked && options.shard_bytes > 0) {
    throw UsageError("a packed file has no shards", "omit --shard-size, or set --format tar");
  }
  if (options.packed.class_names.empty()) options.packed.class_names = source.class_names();
  return options.format == PackFormat::kTar ? pack_shards(source, options) : pack_file(source, options);
}

}  // namespace lockstep
