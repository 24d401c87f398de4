// A test of the data set, without a framework: its exit code is 1 if something is wrong.
#include "data.h"

#include <cstdio>

int main() {
  const auto data = make_data("train");
  lockstep::SampleContext first(0, 0, 0);  // seed, epoch and index, which determine a sample's random choices
  const lockstep::Sample sample = data->get(0, first);
  if (data->size() > 0 && sample.data.defined()) return 0;
  std::fprintf(stderr, "the data set is empty\n");
  return 1;
}
