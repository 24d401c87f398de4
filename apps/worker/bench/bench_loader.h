// SPDX-License-Identifier: Apache-2.0
// What `lockstep bench loader` measures: epochs over real files, or over samples that cost nothing.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/loader.h"

namespace lockstep::worker {

struct LoaderBench {
  std::string path;          ///< a folder, list, packed file, ...; what open_source() opens
  std::int64_t batch = 64;   ///< samples
  std::int64_t workers = 2;  ///< loader threads
  std::int64_t prefetch = 2;
  std::int64_t epochs = 3;
  std::int64_t crop = 224;      ///< pixels a side (imagenet)
  std::int64_t size = 100'000;  ///< samples (noop)
  bool json = false;
};

/// Gray pictures as floats: a captcha recogniser's input. Throws: DataError naming the file; UsageError where the
/// pictures do not have one size.
int bench_captcha_loader(const LoaderBench& bench);

/// Random resized crop, flip, normalise: ImageNet's training input.
int bench_imagenet_loader(const LoaderBench& bench);

/// Samples that are one number each: what the loader itself costs.
int bench_noop_loader(const LoaderBench& bench);

}  // namespace lockstep::worker
