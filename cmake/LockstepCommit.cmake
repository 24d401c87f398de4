# Run by the build, with -D OUTPUT=... -D SOURCE=...: writes a C++ file with the commit being built, if it has changed. The commit
# comes from git, or in a source archive from commit.txt, which `git archive` fills in; it is empty if neither has it.
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude * OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
else()
  file(READ ${CMAKE_CURRENT_LIST_DIR}/commit.txt archived)
  string(REGEX MATCH "^[0-9a-f]+" commit "${archived}")
  string(SUBSTRING "${commit}" 0 12 commit)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [=[
#include "common/commit.h"

namespace lockstep::cli {
const char* const kCommit = "@commit@";
}  // namespace lockstep::cli
]=] @ONLY)
