// SPDX-License-Identifier: Apache-2.0
// How programs that fail on their own end: the test re-executes itself as such a program.
#include "lockstep/base/fault.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/resources.h"
#include "support/process.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace lockstep {

// Functions whose names the backtrace must show.
[[gnu::noinline]] int the_users_forward(int value) {
  if (value > 0) throw std::out_of_range("no such label: \"7\"");
  return value;
}

[[gnu::noinline]] void the_users_broken_pointer(volatile int* pointer) { *pointer = 1; }

namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::string own_path;

struct End {
  test::ProcessResult result;
  std::string error_file;
};

/// Runs the program `what` (below) with a launcher's error file.
End run(const std::string& what) {
  const test::TempDir folder;
  const std::string file = (folder / "error.json").string();
  auto result = test::run_process(
      {.command = {own_path, "program", what}, .environment = {{"LOCKSTEP_ERROR_FILE", file}, {"RANK", "3"}}});
  return {result, std::filesystem::exists(file) ? FileSystem::system().read(file) : ""};
}

TEST(Fault, AnExceptionOfTheProgramIsItsOwn) {
  const End end = run("guarded");
  EXPECT_EQ(end.result.code, 71);
  EXPECT_THAT(end.result.err,
              HasSubstr("error: your program threw std::out_of_range (rank 3): no such label: \"7\"\n"));
  EXPECT_THAT(end.result.err, Not(HasSubstr("please report this")));
  EXPECT_THAT(end.error_file, AllOf(HasSubstr(R"("type": "ProgramError")"), HasSubstr("your program threw")));
}

TEST(Fault, ItIsSaidWhereItWasThrown) {
  const End end = run("section");
  EXPECT_EQ(end.result.code, 71);
  EXPECT_THAT(end.result.err, HasSubstr("threw std::out_of_range in forward (rank 3, step 13): no such label"));
  EXPECT_THAT(end.result.err, HasSubstr("\n  backtrace\n    #0 lockstep::the_users_forward(int)+0x"));
  EXPECT_THAT(end.result.err, HasSubstr(" main+0x"));
}

TEST(Fault, TheInnermostSectionIsTheOneNamedAlsoFromAnotherThread) {
  EXPECT_THAT(run("thread").result.err, HasSubstr("in dataset (rank 3, epoch 2, batch 5): no such label"));
}

TEST(Fault, OneThatNobodyCatchesIsReportedToo) {
  const End end = run("uncaught");
  EXPECT_EQ(end.result.code, 71);
  EXPECT_THAT(end.result.err, HasSubstr("error: your program threw std::out_of_range (rank 3): no such label"));
  EXPECT_THAT(end.result.err, HasSubstr("#0 lockstep::the_users_forward(int)+0x"));
  EXPECT_THAT(end.result.err, Not(HasSubstr("terminate called")));
  EXPECT_THAT(end.error_file, HasSubstr("the_users_forward"));
}

TEST(Fault, AnErrorOfLockstepThatNobodyCatchesKeepsItsCode) {
  const End end = run("uncaught-error");
  EXPECT_EQ(end.result.code, 64);
  EXPECT_THAT(end.result.err, HasSubstr("error: no such key\n  next  try epochs"));
  EXPECT_THAT(end.error_file, HasSubstr("UsageError"));
}

TEST(Fault, AnExceptionThatIsCaughtAndAnotherOneAreNotMixedUp) {
  const End end = run("second");
  EXPECT_THAT(end.result.err, HasSubstr("threw std::logic_error in loss (rank 3): the second"));
  EXPECT_THAT(end.result.err, Not(HasSubstr("the_users_forward")));
}

TEST(Fault, InLockstepsOwnCommandsItIsABugOfLockstep) {
  const End end = run("ours");
  EXPECT_EQ(end.result.code, 70);
  EXPECT_THAT(end.result.err, HasSubstr("error: unexpected error in forward (rank 3): no such label"));
  EXPECT_THAT(end.result.err, HasSubstr("next  please report this with the command that led to it"));
  EXPECT_THAT(end.error_file, HasSubstr("InternalError"));
}

TEST(Fault, APathThatTheSystemRefusesIsNoBugOfLockstep) {
  const End end = run("refused-path");
  EXPECT_EQ(end.result.code, 74);
  EXPECT_THAT(end.result.err, HasSubstr("error: cannot use /dev/null/x: Not a directory\n  next  check this path"));
  EXPECT_THAT(end.error_file, HasSubstr("IoError"));
}

TEST(Fault, AWorkingFolderThatIsGoneIsNoBugOfLockstep) {
  const End end = run("lost-folder");
  EXPECT_EQ(end.result.code, 74);
  EXPECT_THAT(end.result.err, HasSubstr("cannot get current path: No such file or directory"));
  EXPECT_THAT(end.result.err, HasSubstr("next  check that the working folder and the folder that TMPDIR names exist"));
}

TEST(Fault, ASignalLeavesABacktraceAndItsOwnStatus) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "the address sanitizer reports signals itself";
  const End end = run("segv");
  EXPECT_EQ(end.result.code, 128 + SIGSEGV);
  EXPECT_THAT(end.result.err, HasSubstr("error: SIGSEGV in backward (rank 3, step 13): address 0x10\n"));
  EXPECT_THAT(end.result.err, HasSubstr("#0 _ZN8lockstep24the_users_broken_pointer"));
  EXPECT_THAT(end.error_file, HasSubstr(R"({"message": {"message": "SIGSEGV in backward)"));
  EXPECT_THAT(end.error_file, AllOf(HasSubstr("the_users_broken_pointer"), HasSubstr(R"("type": "SIGSEGV"}}})")));
}

TEST(Fault, ASignalInAThreadOfLockstepLeavesThemToo) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "the address sanitizer reports signals itself";
  const End end = run("segv-worker");
  EXPECT_EQ(end.result.code, 128 + SIGSEGV);
  EXPECT_THAT(end.result.err, HasSubstr("error: SIGSEGV in dataset (rank 3): address 0x10\n"));
  EXPECT_THAT(end.error_file, AllOf(HasSubstr("the_users_broken_pointer"), HasSubstr(R"("type": "SIGSEGV"}}})")));
}

TEST(Fault, SoDoAnAbortAndAnOverrunStack) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "the address sanitizer reports signals itself";
  const End abort = run("abort");
  EXPECT_EQ(abort.result.code, 128 + SIGABRT);
  EXPECT_THAT(abort.result.err, AllOf(HasSubstr("error: SIGABRT (rank 3)"), HasSubstr("abort"), HasSubstr(" main+0x")));
  const End deep = run("overrun");
  EXPECT_EQ(deep.result.code, 128 + SIGSEGV);
  EXPECT_THAT(deep.result.err, HasSubstr("error: SIGSEGV"));
}

TEST(Fault, OfThreadsThatCrashTogetherTheFirstIsReportedInFull) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "the address sanitizer reports signals itself";
  for (int i = 0; i < 20; ++i) {
    const End end = run("segv-together");
    EXPECT_EQ(end.result.code, 128 + SIGSEGV);
    EXPECT_THAT(end.error_file, AllOf(HasSubstr("the_users_broken_pointer"), EndsWith("\"type\": \"SIGSEGV\"}}}\n")));
  }
}

TEST(Fault, SoIsTheFirstOfThreadsThatThrowTogether) {
  for (int i = 0; i < 20; ++i) {
    const End end = run("uncaught-together");
    EXPECT_EQ(end.result.code, 71);
    EXPECT_THAT(end.error_file, AllOf(HasSubstr("the_users_forward"), HasSubstr(R"("type": "ProgramError")")));
  }
}

TEST(Fault, WhatTheProgramHasSetStays) {
  EXPECT_EQ(run("own-handlers").result.code, 9) << "its terminate handler";
  EXPECT_EQ(run("own-signal").result.code, 8) << "its signal handler";
}

TEST(Fault, ALoadedUcxLeavesCrashesAndHangUpsToUs) {
  const End crash = run("ucx-crash");
  EXPECT_EQ(crash.result.code, 128 + SIGSEGV);
  EXPECT_THAT(crash.error_file, HasSubstr("SIGSEGV in backward"));
  EXPECT_EQ(run("ucx-hup").result.code, 128 + SIGHUP);
  EXPECT_EQ(run("ucx-old-hup").result.code, 128 + SIGHUP) << "a UCX that cannot put back a handler";
  EXPECT_EQ(run("ucx-nohup").result.code, 0) << "the user has ignored hang-ups";
  EXPECT_EQ(run("ucx-for-the-user").result.code, 7) << "the user wants UCX's report";
}

TEST(Fault, ASectionGivesWhatItsBodyGives) {
  EXPECT_EQ(fault::in_section("forward", [] { return std::string("yes"); }), "yes");
  EXPECT_THROW(fault::in_section("forward", [] { throw DataError("torn"); }), DataError);
}

[[gnu::noinline]] int overrun(int depth) {
  volatile char room[4096] = {};
  room[0] = static_cast<char>(depth);
  if (depth < 0) return 0;  // never: the stack overflows first
  return overrun(depth + 1) + room[0];
}

int in_a_thread() {
  fault::note_batch(2, 5);
  std::exception_ptr error;
  std::thread([&] {
    try {
      fault::in_section("dataset", [] { (void)the_users_forward(7); });
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  fault::in_section("loader", [&] { std::rethrow_exception(error); });
  return 0;
}

void crash_in(const char* section) {
  fault::in_section(section, [] { the_users_broken_pointer(reinterpret_cast<int*>(0x10)); });
}

void in_four_threads(const std::function<void()>& body) {
  constexpr int kThreads = 4;
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      body();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

int in_a_lost_folder() {
  {
    const test::TempDir folder;
    std::filesystem::current_path(folder.path());
  }
  return static_cast<int>(std::filesystem::current_path().string().size());
}

int second() {
  try {
    fault::in_section("forward", [] { return the_users_forward(7); });
  } catch (const std::out_of_range&) {
  }
  fault::in_section("loss", [] { throw std::logic_error("the second"); });
  return 0;
}

}  // namespace

int run_program_of_test(const std::string& what) {
  if (what == "own-handlers") std::set_terminate([] { ::_exit(9); });
  if (what == "own-signal") ::signal(SIGSEGV, [](int) { ::_exit(8); });
  if (what == "ucx-for-the-user") ::setenv("UCX_HANDLE_ERRORS", "bt", 1);
  if (what == "ucx-nohup") ::signal(SIGHUP, SIG_IGN);
  const char* library = what == "ucx-old-hup" ? "old/libucs.so.0" : "libucs.so.0";
  if (what.starts_with("ucx") &&
      ::dlopen((std::string(LOCKSTEP_UCX_STAND_INS) + library).c_str(), RTLD_NOW) == nullptr) {
    return 1;
  }
  fault::install_reports();
  const auto guarded = [](auto body) { return guarded_main([&]() -> int { return body(); }); };
  if (what == "guarded") {
    return guarded_main([] { return the_users_forward(7); });
  }
  if (what.starts_with("ucx") && what.ends_with("hup")) return ::raise(SIGHUP);
  if (what == "ours" || what == "refused-path" || what == "lost-folder") fault::this_is_lockstep();
  if (what == "refused-path") {
    return guarded([] { return static_cast<int>(std::filesystem::file_size("/dev/null/x")); });
  }
  if (what == "lost-folder") return guarded(in_a_lost_folder);
  if (what == "section" || what == "segv") fault::note_step(13);
  if (what == "section" || what == "ours") {
    return guarded([] { return fault::in_section("forward", [] { return the_users_forward(7); }); });
  }
  if (what == "thread") return guarded(in_a_thread);
  if (what == "second") return guarded(second);
  if (what == "uncaught" || what == "own-handlers") return the_users_forward(7);
  if (what == "uncaught-error") throw UsageError("no such key", "try epochs");
  if (what == "abort") std::abort();
  if (what == "overrun") return overrun(0);
  if (what == "segv-worker") start_thread("for a data set", [] { crash_in("dataset"); }).join();
  if (what == "segv-together") in_four_threads([] { crash_in("dataset"); });
  if (what == "uncaught-together") in_four_threads([] { (void)the_users_forward(7); });
  crash_in("backward");
  return 0;
}

}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "program") return lockstep::run_program_of_test(argv[2]);
  lockstep::own_path = std::filesystem::read_symlink("/proc/self/exe");
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
