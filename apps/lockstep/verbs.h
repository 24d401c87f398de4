// SPDX-License-Identifier: Apache-2.0
// The verbs of the command: each has a cmd_<verb>.cpp and is listed in main.cpp.
#pragma once

namespace lockstep::apps {

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);  ///< argv[0] is the verb; returns the exit code or throws a lockstep::Error
};

int cmd_cmake_dir(int argc, char** argv);
int cmd_dashboard(int argc, char** argv);
int cmd_doctor(int argc, char** argv);
int cmd_new(int argc, char** argv);
int cmd_plan(int argc, char** argv);
int cmd_plot(int argc, char** argv);
int cmd_run(int argc, char** argv);
int cmd_trace(int argc, char** argv);

}  // namespace lockstep::apps
