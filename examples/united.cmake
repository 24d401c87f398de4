# With LOCKSTEP_UNITY the examples are one program: reading and linking libtorch would cost each of 30 programs 20 s of CPU time.
# Each source is in a separate namespace, after all the headers; hard links give the program the examples' names, and it runs the
# example by whose name it was called. Without LOCKSTEP_UNITY each is compiled as a reader would compile it.

function(lockstep_unite_example source output)
  cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_UNITED_EXAMPLES ${output}=${source})
endfunction()

# Writes ${file}: the examples of a list, NAME=SOURCE each.
function(lockstep_write_united_examples file)
  set(includes)
  set(bodies)
  foreach(entry IN LISTS ARGN)
    string(REGEX MATCH "^([^=]+)=(.+)$" matched ${entry})
    set(name example_${CMAKE_MATCH_1})
    set(source ${CMAKE_MATCH_2})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} lines REGEX "^#include [<\"]")
    cmake_path(GET source PARENT_PATH folder)
    list(TRANSFORM lines REPLACE "\"(.*)\"" "\"${folder}/\\1\"")
    list(APPEND includes ${lines})
    string(APPEND bodies "namespace ${name} {\n#include \"${source}\"\n}\n"
                         "int run_${name}(int argc, char** argv) { return call(${name}::main, argc, argv); }\n")
  endforeach()
  list(REMOVE_DUPLICATES includes)
  list(JOIN includes "\n" includes)
  file(CONFIGURE OUTPUT ${file} CONTENT "@includes@
[[maybe_unused]] static int call(int (*main)(), int, char**) { return main(); }
[[maybe_unused]] static int call(int (*main)(int, char**), int argc, char** argv) { return main(argc, argv); }
@bodies@" @ONLY)
endfunction()

# The main() for all examples.
function(lockstep_write_united_main file)
  set(declared)
  set(rows)
  foreach(name IN LISTS ARGN)
    string(APPEND declared "int run_example_${name}(int argc, char** argv);\n")
    string(APPEND rows "  if (name == \"${name}\") return run_example_${name}(argc, argv);\n")
  endforeach()
  file(CONFIGURE OUTPUT ${file} CONTENT "#include <filesystem>
#include <iostream>
@declared@
int main(int argc, char** argv) {
  const std::string name = std::filesystem::read_symlink(\"/proc/self/exe\").filename();
@rows@  std::cerr << \"no example is called \" << name << \"\\n\";
  return 64;
}
" @ONLY)
endfunction()

# Two files, so that two compilers can run at once.
function(lockstep_build_united_examples)
  get_property(entries GLOBAL PROPERTY LOCKSTEP_UNITED_EXAMPLES)
  if(NOT entries)
    return()
  endif()
  list(LENGTH entries count)
  math(EXPR half "(${count} + 1) / 2")
  list(SUBLIST entries 0 ${half} first)
  list(SUBLIST entries ${half} -1 second)
  set(folder ${PROJECT_BINARY_DIR}/examples)
  lockstep_write_united_examples(${folder}/united_1.cpp ${first})
  lockstep_write_united_examples(${folder}/united_2.cpp ${second})
  list(TRANSFORM entries REPLACE "=.*" "" OUTPUT_VARIABLE names)
  lockstep_write_united_main(${folder}/united_main.cpp ${names})
  add_executable(united_examples ${folder}/united_1.cpp ${folder}/united_2.cpp ${folder}/united_main.cpp)
  target_link_libraries(united_examples PRIVATE lockstep::train lockstep::recipes lockstep_warnings)
  # A main() in a namespace is an ordinary function.
  target_compile_options(united_examples PRIVATE -O0 -Wno-main -Wno-shadow)
  set_target_properties(united_examples PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${folder})
  foreach(name IN LISTS names)
    add_custom_command(TARGET united_examples POST_BUILD COMMAND ln -f united_examples ${name}
      WORKING_DIRECTORY ${folder})
  endforeach()
endfunction()
