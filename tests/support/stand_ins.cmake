# stand_in(LIBRARY SOURCE definitions...): a make-believe library for a test, in `folder`. The target all_stand_ins builds
# all of them.
function(stand_in file source)
  string(MAKE_C_IDENTIFIER ${all_stand_ins}_${file} target)
  add_library(${target} SHARED ${source})
  cmake_path(GET file PARENT_PATH place)
  cmake_path(GET file FILENAME name)
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${folder}/${place})
  target_compile_definitions(${target} PRIVATE ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/include)
  add_dependencies(${all_stand_ins} ${target})
endfunction()
