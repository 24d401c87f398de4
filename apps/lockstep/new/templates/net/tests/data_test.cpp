// A test of the data set, without a framework: it ends with 1 where something is wrong.
#include "data.h"

#include <cstdio>

int main() {
  const auto data = make_data("train");
  lockstep::SampleContext first(0, 0, 0);  // seed, epoch and index: what a sample's random choices are drawn from
  const lockstep::Sample sample = data->get(0, first);
  if (data->size() > 0 && sample.data.defined()) return 0;
  std::fprintf(stderr, "the data set is empty\n");
  return 1;
}
