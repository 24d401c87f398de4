// Two processes find each other, sum a tensor, and print their values.
#include <lockstep/lockstep.h>

int train(lockstep::Job& job) {
  const at::Tensor own = at::full({2}, job.rank() + 1.0);  // 1 on rank 0, 2 on rank 1
  fmt::print("rank {} of {} has {}\n", job.rank(), job.world_size(), own[0].item<double>());
  job.group().all_reduce(own).wait();  // in place; the default operation is the sum
  job.barrier();                       // only to make sure that the lines above come first
  job.print("every rank has {} after all_reduce", own[0].item<double>());  // only rank 0 prints
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
