// A data set as a class inside a function, changed by a lambda, loaded by worker threads.
#include <lockstep/lockstep.h>

#include <set>
#include <thread>

// Returns: all samples of an epoch as one tensor, and the time taken in seconds.
std::pair<at::Tensor, double> read(const std::shared_ptr<lockstep::Dataset>& set, lockstep::Job& job, int64_t workers) {
  lockstep::DataLoader loader{set, job, {.batch_size = 32, .workers = workers, .shuffle = true, .seed = 7}};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<at::Tensor> batches;
  for (auto& batch : loader.epoch(0)) batches.push_back(at::cat({batch.data, batch.target.unsqueeze(1)}, 1));
  return {at::cat(batches), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

int train(lockstep::Job& job) {
  const std::vector<double> table = {0.5, -1.5, 2.5, 3.5};  // workers use it directly: no copy, no pickling
  std::mutex mutex;
  std::set<std::thread::id> readers;

  class Waves {  // a local class: it needs only size() and get()
   public:
    explicit Waves(const std::vector<double>& table) : table_(table) {}
    int64_t size() const { return 512; }
    lockstep::Sample get(int64_t index) const {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // like a file on a slow disk
      const double height = table_[index % table_.size()];
      return {at::full({8}, height, at::kFloat), at::scalar_tensor(height, at::kFloat)};
    }

   private:
    const std::vector<double>& table_;
  };

  const auto noisy = lockstep::transform(Waves(table), [&](lockstep::Sample sample, lockstep::SampleContext& context) {
    const std::lock_guard lock(mutex);  // several workers may be here at once
    readers.insert(std::this_thread::get_id());
    sample.data.add_(context.random.uniform(-0.1, 0.1));  // the sample's own random numbers
    return sample;
  });

  const auto [alone, slow] = read(noisy, job, 0);
  job.print("0 workers: {} samples read by {} thread in {:.2f} s", alone.size(0), readers.size(), slow);
  readers.clear();
  const auto [together, fast] = read(noisy, job, 4);
  job.print("4 workers: {} samples read by {} threads in {:.2f} s", together.size(0), readers.size(), fast);
  job.print("the batches are {}, and came {:.1f} times as fast", at::equal(alone, together) ? "the same" : "others",
            slow / fast);
  return 0;
}

int main(int argc, char** argv) { return lockstep::run_program(argc, argv, train); }
