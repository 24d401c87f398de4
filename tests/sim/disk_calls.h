// SPDX-License-Identifier: Apache-2.0
// The calls on a world's disk used by calls.cpp.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

namespace lockstep::sim {

int disk_open(const char* path, int flags);
int disk_stat(const char* path, struct stat* about);
DIR* disk_opendir(int fd);

}  // namespace lockstep::sim
