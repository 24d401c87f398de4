// SPDX-License-Identifier: Apache-2.0
// Everything that turns files into batches: sources (folders of classes, lists, COCO, Pascal VOC, IDX, tar shards,
// packed files), transforms, data sets and the loader. It does not include torch/torch.h.
#pragma once

#if __cplusplus < 202002L
#error "Lockstep needs C++20: -std=c++20, or in CMake: target_compile_features(my_program PRIVATE cxx_std_20)"
#else

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include "lockstep/data/augment/augmentations.h"
#include "lockstep/data/augment/color.h"
#include "lockstep/data/augment/crop.h"
#include "lockstep/data/augment/resize.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/augment/turn.h"
#include "lockstep/data/batch_sampler.h"
#include "lockstep/data/compose.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/image_dataset.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/iterable.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sampler.h"
#include "lockstep/data/sources/coco.h"
#include "lockstep/data/sources/held_out.h"
#include "lockstep/data/sources/idx.h"
#include "lockstep/data/sources/idx_dataset.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/mask_folders.h"
#include "lockstep/data/sources/open_source.h"
#include "lockstep/data/sources/packed.h"
#include "lockstep/data/sources/tar_shards.h"
#include "lockstep/data/sources/voc.h"
#include "lockstep/data/stream_dataset.h"

#endif
