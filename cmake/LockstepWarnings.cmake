# lockstep_warnings: an interface target that each of our targets links privately.
add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                                   -Wno-unknown-pragmas)
if(LOCKSTEP_WERROR)
  target_compile_options(lockstep_warnings INTERFACE -Werror)
endif()
