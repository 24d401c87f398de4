# lockstep_warnings: an interface target that each of our targets links privately.
add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-unknown-pragmas
  # Designated initialisers deliberately leave the other fields at their defaults.
  -Wno-missing-field-initializers
  # GCC 12 warns about std::string's own memcpy in `"a" + text` (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(LOCKSTEP_WERROR)
  target_compile_options(lockstep_warnings INTERFACE -Werror)
endif()
