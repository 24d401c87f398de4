// SPDX-License-Identifier: Apache-2.0
#include "worker/answers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/standard_streams.h"

namespace lockstep::worker {

int answer_all(const std::function<int(const std::vector<std::string>&)>& run) {
  for (std::string line; std::getline(std::cin, line);) {
    const pid_t child = ::fork();  // no other thread exists yet
    if (child < 0) throw_cannot("start a process", errno);
    if (child == 0) {
      std::vector<std::string> words;
      std::istringstream text(line);
      for (std::string word; std::getline(text, word, '\t');) words.push_back(word);
      const int code = guarded_main([&] {
        std::filesystem::current_path(words.at(0));
        return run({words.begin() + 1, words.end()});
      });
      std::fflush(nullptr);
      std::_Exit(code);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    print_to(stdout, "\f{}\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace lockstep::worker
