// SPDX-License-Identifier: Apache-2.0
// A save goes on while the state changes: what is written is the state as it was.
#include "lockstep/checkpoint/async_saver.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "checkpoint/states.h"
#include "lockstep/base/error.h"
#include "support/fake_cuda.h"

namespace lockstep {
namespace async_saver_test {

using test::same_state;
using test::states_of;

StateParts parts_of(std::int64_t seed) {
  StateParts parts;
  for (const auto& [name, state] : states_of(seed)) parts[name].entries = state;
  return parts;
}

at::Tensor& weight_of(StateParts& parts) { return std::get<at::Tensor>(parts["model"].entries["conv.weight"]); }

/// A save that waits until it is let go on.
struct Gate {
  std::promise<void> opened;
  std::shared_future<void> open = opened.get_future().share();
};

TEST(AsyncSaver, WritesTheStateAsItWasWhileTheTrainingChangesIt) {
  Gate gate;
  StateParts seen;
  StateParts state = parts_of(1);
  {
    AsyncSaver saver;
    saver.save(state, [&](const StateParts& copy) {
      gate.open.wait();
      seen = copy;
    });
    EXPECT_TRUE(saver.is_busy());
    weight_of(state).fill_(99);
    gate.opened.set_value();
  }
  EXPECT_TRUE(same_state(seen["model"].entries, states_of(1).at("model")));
  EXPECT_TRUE(same_state(seen["trainer"].entries, states_of(1).at("trainer")));
}

TEST(AsyncSaver, HasOneSaveUnderWayAtMost) {
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  std::atomic<int> done = 0;
  AsyncSaver saver;
  for (int i = 0; i < 20; ++i) {
    saver.save(parts_of(i), [&](const StateParts&) {
      most = std::max(most.load(), ++at_once);
      --at_once;
      ++done;
    });
  }
  saver.wait();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(done, 20);
  EXPECT_FALSE(saver.is_busy());
}

TEST(AsyncSaver, UsesTheMemoryOfTheSaveBefore) {
  AsyncSaver saver;
  const void* first = nullptr;
  const void* second = nullptr;
  const auto address_into = [](const void*& target) {
    return [&target](const StateParts& copy) {
      target = std::get<at::Tensor>(copy.at("model").entries.at("conv.weight")).data_ptr();
    };
  };
  saver.reserve(parts_of(1));
  saver.save(parts_of(1), address_into(first));
  saver.save(parts_of(2), address_into(second));
  saver.wait();
  EXPECT_EQ(first, second);
  at::Tensor other = at::empty({5});
  saver.save({{"model", {.entries = {{"conv.weight", other}}, .slices = {}}}}, address_into(second));
  saver.wait();
  EXPECT_NE(first, second) << "a tensor of another shape has memory of its own";
}

TEST(AsyncSaver, WritesOnTheDeviceOfTheProcess) {
  const testing::FakeCuda gpus(3);
  AsyncSaver saver;
  int found = -1;
  saver.save(parts_of(1), [&](const StateParts&) { found = testing::FakeCuda::current(); });
  saver.wait();
  EXPECT_EQ(found, 3);
}

TEST(AsyncSaver, ThrowsWhatTheWriterThrewOnce) {
  AsyncSaver saver;
  saver.save(parts_of(1), [](const StateParts&) { throw IoError("the disk is full"); });
  EXPECT_THROW(saver.wait(), IoError);
  EXPECT_NO_THROW(saver.wait());
  saver.save(parts_of(1), [](const StateParts&) { throw IoError("the disk is full"); });
  while (saver.is_busy()) std::this_thread::yield();
  EXPECT_THROW(saver.check(), IoError);
  EXPECT_NO_THROW(saver.check());
}

TEST(AsyncSaver, TheNextSaveThrowsTheErrorOfTheOneBefore) {
  AsyncSaver saver;
  saver.save(parts_of(1), [](const StateParts&) { throw IoError("the disk is full"); });
  EXPECT_THROW(saver.save(parts_of(2), [](const StateParts&) {}), IoError);
}

// The error that ended the run stands on the console already.
TEST(AsyncSaver, LeavesAnErrorThatOnlyFollowsAnotherAsAWarning) {
  const auto left_by = [](auto error) {
    ::testing::internal::CaptureStderr();
    {
      AsyncSaver().save(parts_of(1), [&](const StateParts&) { throw error; });
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(left_by(PeerError("it is dropped")), "warn: it is dropped\n");
  EXPECT_EQ(left_by(IoError("it is not saved")), "error: it is not saved\n");
}

TEST(AsyncSaver, CopiesLargeStatesBitForBit) {
  StateParts parts;
  // Above and below what two threads share, no multiple of anything, and one that begins between two cache lines.
  for (const std::int64_t size : {1, 63, 1'000'003, 5'000'011}) {
    parts["model"].entries[std::to_string(size)] = at::arange(size, at::kFloat);
    parts["model"].entries[std::to_string(size) + ".moved"] = at::arange(size + 1, at::kFloat).narrow(0, 1, size);
  }
  AsyncSaver saver;
  saver.save(parts, [&](const StateParts& copy) {
    for (const auto& [name, value] : parts.at("model").entries) {
      EXPECT_TRUE(std::get<at::Tensor>(copy.at("model").entries.at(name)).equal(std::get<at::Tensor>(value))) << name;
    }
  });
  saver.wait();
}

TEST(AsyncSaver, KeepsLayoutsAndWhatCannotBeCopied) {
  StateParts parts;
  const at::Tensor channels_last = at::empty({2, 8, 3, 3}).fill_(3).contiguous(at::MemoryFormat::ChannelsLast);
  parts["model"].entries["w"] = channels_last;
  parts["model"].entries["strided"] = at::empty({6, 4}).fill_(5).slice(1, 0, 4, 2);
  parts["model"].entries["undefined"] = at::Tensor();
  AsyncSaver saver;
  saver.save(parts, [&](const StateParts& copy) {
    const StateDict& model = copy.at("model").entries;
    EXPECT_EQ(std::get<at::Tensor>(model.at("w")).strides(), channels_last.strides());
    EXPECT_TRUE(std::get<at::Tensor>(model.at("w")).equal(channels_last));
    EXPECT_TRUE(std::get<at::Tensor>(model.at("strided")).equal(at::empty({6, 2}).fill_(5)));
    EXPECT_FALSE(std::get<at::Tensor>(model.at("undefined")).defined()) << "who writes names it";
  });
  saver.wait();
}

}  // namespace async_saver_test
}  // namespace lockstep
