# Man pages and completion for bash and zsh, generated from the built command's --help: in <build>/shell.
#
# Python 3 generates them; without it there are none, nor in sanitizer builds, whose programs start slowly. They are regenerated
# when a file with --help texts or setting names changes, not whenever the programs are linked.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT Python3_Interpreter_FOUND OR CMAKE_CROSSCOMPILING OR CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  message(STATUS "Man pages and completion will not be built: they need Python 3 and a native build without sanitizers")
  return()
endif()

set(shell ${PROJECT_BINARY_DIR}/shell)
file(GLOB_RECURSE texts apps/*.cpp apps/*.h recipes/*/config.cpp recipes/*/recipe.cpp recipes/*.yml src/train/settings/*
  include/lockstep/train/*_config.h)
list(APPEND texts packaging/completion.bash.in packaging/completion.zsh.in include/lockstep/base/error.h)
set(programs ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set(run "")
if(LOCKSTEP_WHEEL)  # its programs look for torch where pip will put it
  set(run ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${LOCKSTEP_TORCH_LIBRARIES})
endif()
add_custom_command(OUTPUT ${shell}/help.json
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${shell}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${shell}
  COMMAND ${run} ${Python3_EXECUTABLE} scripts/build/command_help.py --programs ${programs} --output ${shell}/new.json
  COMMAND Python3::Interpreter scripts/build/man_pages --texts ${shell}/new.json --output ${shell}/man
  COMMAND Python3::Interpreter scripts/build/completions --texts ${shell}/new.json --output ${shell}
  COMMAND ${CMAKE_COMMAND} -E rename ${shell}/new.json ${shell}/help.json  # done last, so that they are regenerated after a failure
  DEPENDS scripts/build/command_help.py scripts/build/man_pages scripts/build/completions ${texts}
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMENT "Man pages and completion" VERBATIM)
add_custom_target(lockstep_shell ALL DEPENDS ${shell}/help.json)
add_dependencies(lockstep_shell lockstep_command lockstep-dashboard lockstep-plot lockstep-worker)

install(DIRECTORY ${shell}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
install(FILES ${shell}/lockstep.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lockstep
        COMPONENT command)
install(FILES ${shell}/_lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT command)
