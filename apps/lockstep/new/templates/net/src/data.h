// The data set: points in a square. A point's class is 1 if its coordinates have the same sign.
#pragma once

#include <lockstep/data.h>

#include <memory>
#include <string>

/// `part` is the value of data.train or data.test in config.yml: a folder, or any string. Replace the points with your
/// files. Of the examples below, the first reads a folder of classes (CocoImages, VocImages and others read other
/// layouts), and the second reads MNIST's files from a folder named mnist:
///   return lockstep::image_dataset(std::make_shared<lockstep::ClassFolders>(part), lockstep::ToTensor{});
///   return std::make_shared<lockstep::IdxDataset>(lockstep::find_idx("mnist", part));
std::shared_ptr<lockstep::Dataset> make_data(const std::string& part);
