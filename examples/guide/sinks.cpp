// Your own sink next to the Trainer's: curves.csv with a line for each epoch, and a message when a checkpoint is safe.
#include <lockstep/lockstep.h>

#include <fstream>

class CurveSink : public lockstep::RunSink {
 public:
  void on_start(const lockstep::RunStart& run) override {
    if (run.rank == 0) file_.open(run.run_dir / "curves.csv");
  }
  void on_epoch(const lockstep::EpochResult& epoch) override {
    file_ << epoch.epoch + 1 << ',' << epoch.loss.value_or(NAN) << ',' << epoch.images_per_s << '\n';
  }

 private:
  std::ofstream file_;  // open on rank 0; on other ranks it is closed and ignores writes
};

int main(int argc, char** argv) {
  return lockstep::run_program(argc, argv, [](lockstep::Job& job) {
    lockstep::FunctionTask task(
        {.model = [] { return torch::nn::Linear(1, 1); },
         .dataset =
             [](const std::string&) {
               return lockstep::make_dataset(256, [](int64_t i) {
                 return lockstep::Sample{at::full({1}, i / 256.0), at::full({1}, i / 128.0 + 1)};
               });
             },
         .loss = [](const at::Tensor& output,
                    const lockstep::Batch& batch) { return at::mse_loss(output, batch.target); }});
    lockstep::TrainConfig config;
    config.epochs = 3;
    config.data.train = "a line";
    lockstep::TrainerOptions options{.recipe = "line", .run_dir = "runs/line"};
    options.sinks = {std::make_shared<CurveSink>(),
                     lockstep::run_callbacks({.on_save = [](const lockstep::SaveResult& saved) {
                       std::cout << "step " << saved.step << " is safe\n";
                     }})};
    lockstep::Trainer(job, task, config, options).fit();
    return 0;
  });
}
