// A ResNet-18 that starts from torchvision's weights and learns your folder of classes.
#include <common/resnet.h>  // a part of lockstep::recipes
#include <lockstep/lockstep.h>

using namespace lockstep;

// torchvision's resnet18 with its names, and one output per class.
struct Classifier : common::ResNet {
  explicit Classifier(int64_t classes)
      : ResNet({.layers = 18}), fc(register_module("fc", torch::nn::Linear(high_channels(), classes))) {}
  at::Tensor forward(const at::Tensor& images) { return fc(features(images).high.mean({2, 3})); }
  torch::nn::Linear fc;
};

// The images below `folder`, as torchvision's ImageFolder finds them.
std::shared_ptr<Dataset> pictures(const std::string& folder, int64_t side, bool is_training) {
  const auto source = std::make_shared<ClassFolders>(folder);
  const ToTensor to_tensor{.normalize = Normalize{}};  // ImageNet's mean and std
  if (!is_training) return image_dataset(source, Compose{Resize{{side, side}}, to_tensor});
  return image_dataset(source, Compose{RandomResizedCrop{.size = {side, side}, .min_scale = 0.5}, to_tensor});
}

struct Config : TrainConfig {
  int64_t side = 224;
  bool freeze = false;
  void describe(ConfigFields& fields) override {
    TrainConfig::describe(fields);
    fields.add("side", &side, "width and height of the images that the network sees, pixels");
    fields.add("freeze", &freeze, "train only the last layer; the others keep their initial weights");
  }
};

int fine_tune(Job& job, int argc, char** argv) {
  Config config;
  config.epochs = 5;
  config.batch_size = 32;
  config.optimizer.lr = 1e-3;
  config.data = {.train = "data/train", .test = "data/test"};
  TrainerOptions options{.recipe = "classes"};
  if (parse_arguments(argc, argv, config, options).help) return 0;

  const auto classes = std::ssize(ClassFolders(config.data.train).class_names());
  FunctionTask task(
      {.model =
           [&] {
             auto net = std::make_shared<Classifier>(classes);
             for (auto& parameter : net->named_parameters()) {
               parameter->set_requires_grad(!config.freeze || parameter.key().starts_with("fc."));
             }
             return net;
           },
       .dataset = [&](const std::string& folder) { return pictures(folder, config.side, folder == config.data.train); },
       .loss = [](const at::Tensor& output,
                  const Batch& batch) { return torch::nn::functional::cross_entropy(output, batch.target); },
       .metrics = {{"accuracy",
                    [](const at::Tensor& output, const Batch& batch) { return output.argmax(1).eq(batch.target); }}}});
  Trainer trainer(job, task, config, options);
  job.print("{}", to_text(trainer.fit().metrics));
  return 0;
}

int main(int argc, char** argv) {
  return run_program(argc, argv, [&](Job& job) { return fine_tune(job, argc, argv); });
}
