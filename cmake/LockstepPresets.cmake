# lockstep_embed_presets(TARGET NAMESPACE files.yml...): compiles YAML files in as <namespace>::presets(), by file name.
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
#include "@namespace@/presets.h"

namespace lockstep::@namespace@ {
std::map<std::string, std::string> presets() {
  return {
@entries@  };
}
}  // namespace lockstep::@namespace@
]] @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/presets.cpp)
endfunction()
