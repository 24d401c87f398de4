# lockstep_warnings: an interface target that each of our targets links privately.
add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                                   -Wno-unknown-pragmas
                                                   # designated initialisers leave the rest at its defaults on purpose
                                                   -Wno-missing-field-initializers)
if(LOCKSTEP_WERROR)
  target_compile_options(lockstep_warnings INTERFACE -Werror)
endif()
