// SPDX-License-Identifier: Apache-2.0
// torchrun's own store as ours, with every libtorch: a TCPStore in this process stands for torchrun's.
#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/backends/gloo/gloo.h"
#include "lockstep/base/error.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::comm {
namespace torch_store_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

class TorchStore : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gloo()) GTEST_SKIP() << "built without Gloo's headers, and so without torchrun's store";
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    tensor::without_libuv(options);
    server_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    plan_ = {.host = "127.0.0.1", .port = server_->getPort(), .prefix = "attempt_0"};
  }

  c10::intrusive_ptr<c10d::TCPStore> server_;
  WorldPlan plan_;
};

TEST_F(TorchStore, IsAStoreLikeOurs) {
  const auto one = connect_torch_store(plan_, seconds(60));
  const auto two = connect_torch_store(plan_, seconds(60));
  EXPECT_EQ(two->try_get("answer"), std::nullopt);
  one->set("answer", "42");
  EXPECT_EQ(two->get("answer", seconds(60)), "42");
  EXPECT_EQ(one->add("ranks", 1), 1);
  EXPECT_EQ(two->add("ranks", 1), 2);
  EXPECT_EQ(two->compare_set("answer", "42", "43"), "43");
  EXPECT_EQ(one->compare_set("answer", "42", "44"), "43");
  EXPECT_TRUE(one->remove("answer"));
  EXPECT_FALSE(two->remove("answer"));
}

TEST_F(TorchStore, KeepsItsKeysUnderTheAttempt) {
  const auto first = connect_torch_store(plan_, seconds(60));
  first->set("host", "a");
  // torch's set() does not wait for an answer; one on the same connection says that the server has taken it.
  ASSERT_EQ(first->get("host", seconds(60)), "a");
  EXPECT_TRUE(server_->check({"attempt_0/host"}));
  plan_.prefix = "attempt_1";
  EXPECT_EQ(connect_torch_store(plan_, seconds(60))->try_get("host"), std::nullopt);
}

TEST_F(TorchStore, SaysWhichKeyDidNotComeInTime) {
  const auto store = connect_torch_store(plan_, seconds(60));
  try {
    store->wait({"nobody"}, milliseconds(50));
    FAIL() << "nothing was thrown";
  } catch (const TimeoutError& error) {
    EXPECT_NE(std::string(error.what()).find("nobody"), std::string::npos) << error.what();
  }
}

}  // namespace torch_store_test
}  // namespace lockstep::comm
