# lockstep_embed_files(TARGET HEADER FUNCTION ROOT files...): compiles files under ROOT in as FUNCTION(), which HEADER declares as
# a std::map of strings by path. A line that begins with )embedded" cannot be embedded.
function(lockstep_embed_files target header function root)
  set(entries "")
  foreach(path IN LISTS ARGN)
    file(READ ${root}/${path} text)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${root}/${path})
    string(APPEND entries "      {\"${path}\", R\"embedded(${text})embedded\"},\n")
  endforeach()
  cmake_path(GET header STEM name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT [[
// Made by CMake from the files that it embeds.
#include "@header@"

std::map<std::string, std::string> @function@() {
  return {
@entries@  };
}
]] @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
endfunction()

# lockstep_embed_presets(TARGET NAMESPACE files.yml...): compiles YAML files in as <namespace>::presets(), by file
# name, which <namespace>/config.h declares.
function(lockstep_embed_presets target namespace)
  set(entries "")
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    string(APPEND entries "      {\"${name}\", R\"yaml(${text})yaml\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/presets.cpp CONTENT [[
// Made by CMake from the recipe's *.yml files.
#include "@namespace@/config.h"

namespace lockstep::@namespace@ {
std::map<std::string, std::string> presets() {
  return {
@entries@  };
}
}  // namespace lockstep::@namespace@
]] @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/presets.cpp)
endfunction()
