// A ResNet-18 with torchvision's names: it starts from a .pth file and trains all layers or only the last.
#include <common/resnet.h>  // a part of lockstep::recipes
#include <lockstep/lockstep.h>

using namespace lockstep;

struct Classifier : common::ResNet {
  explicit Classifier(int64_t classes)
      : ResNet({.layers = 18}), fc(register_module("fc", torch::nn::Linear(high_channels(), classes))) {}
  at::Tensor forward(const at::Tensor& images) { return fc(features(images).high.mean({2, 3})); }
  torch::nn::Linear fc;
};

struct Config : TrainConfig {
  int64_t outputs = 0;
  bool freeze = false;
  void describe(ConfigFields& fields) override {
    TrainConfig::describe(fields);
    fields.add("outputs", &outputs, "outputs of the last layer; 0: one per class");
    fields.add("freeze", &freeze, "train only the last layer");
  }
};

std::shared_ptr<Dataset> pictures(const std::string& folder) {
  return image_dataset(std::make_shared<ClassFolders>(folder),
                       Compose{Resize{{32, 32}}, ToTensor{.normalize = Normalize{}}});  // ImageNet's mean and std
}

int fine_tune(Job& job, int argc, char** argv) {
  Config config;
  config.epochs = 1;
  config.batch_size = 16;
  config.drop_last = true;  // batch norm cannot learn from a last batch of one image
  config.optimizer.lr = 1e-3;
  config.data.train = "data/train";
  TrainerOptions options{.recipe = "classes"};
  if (parse_arguments(argc, argv, config, options).help) return 0;

  const auto classes = std::ssize(ClassFolders(config.data.train).class_names());
  const auto make = [&] {
    Classifier net(config.outputs > 0 ? config.outputs : classes);
    for (const auto& each : net.named_parameters())
      each.value().requires_grad_(!config.freeze || each.key().starts_with("fc."));
    return net;
  };
  FunctionTask task(
      {.model = make,
       .dataset = pictures,
       .loss = [](const at::Tensor& output,
                  const Batch& batch) { return torch::nn::functional::cross_entropy(output, batch.target); },
       .metrics = {{"accuracy",
                    [](const at::Tensor& output, const Batch& batch) { return output.argmax(1).eq(batch.target); }}}});
  job.print("{}", to_text(Trainer(job, task, config, options).fit().metrics));
  return 0;
}

int main(int argc, char** argv) {
  return run_program(argc, argv, [&](Job& job) { return fine_tune(job, argc, argv); });
}
