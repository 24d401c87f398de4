// The data set: points of a square; the class tells whether their coordinates have the same sign.
#pragma once

#include <lockstep/data/dataset.h>

#include <memory>
#include <string>

/// `part` is the value of data.train or data.test in config.yml: a folder, or any word. Replace the points by your
/// files: lockstep/data/image_dataset.h has folders of classes, COCO, Pascal VOC and lists.
std::shared_ptr<lockstep::Dataset> make_data(const std::string& part);
