# lockstep_module(), lockstep_test(), lockstep_app(): a module's CMakeLists.txt reads as a table.
# The arrows between modules are checked against cmake/layers.txt when CMake runs.

set(LOCKSTEP_LAYERS_FILE ${CMAKE_CURRENT_LIST_DIR}/layers.txt)

# Stops with an error unless layers.txt allows `module` to depend on each of `deps`.
function(lockstep_check_arrows module)
  file(STRINGS ${LOCKSTEP_LAYERS_FILE} rows REGEX "^${module}[ ]")
  string(REGEX REPLACE "[ ]+" ";" allowed "${rows}")
  foreach(dep IN LISTS ARGN)
    if(NOT dep IN_LIST allowed)
      message(FATAL_ERROR "cmake/layers.txt does not allow ${module} to depend on ${dep}")
    endif()
  endforeach()
endfunction()

# lockstep_precompile(TARGET KIND): the headers of a tensor are read once a KIND (library or test) instead of once a
# file, 2.3 s each with GCC 12. Not torch::nn's: their precompiled form of 620 MB takes longer to load than they take
# to read. Not in the presets dev and clang: there each file has to name what it includes.
option(LOCKSTEP_PCH "Precompile the headers of a tensor" ON)
set(lockstep_precompiled_library_headers <ATen/core/ivalue.h> <ATen/core/Tensor.h> <fmt/format.h>)
set(lockstep_precompiled_test_headers ${lockstep_precompiled_library_headers} <gtest/gtest.h>)
set(lockstep_precompiled_test_options -O0 -fPIE)
set(lockstep_precompiled_test_link GTest::gtest)
function(lockstep_precompile target kind)
  if(NOT LOCKSTEP_PCH)
    return()
  endif()
  set(from lockstep_precompiled_${kind})
  if(NOT TARGET ${from})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
    add_library(${from} OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(${from} PRIVATE lockstep::torch fmt::fmt ${lockstep_precompiled_${kind}_link}
      lockstep_warnings)
    if(NOT kind STREQUAL library)
      set_target_properties(${from} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    endif()
    target_compile_options(${from} PRIVATE ${lockstep_precompiled_${kind}_options})
    target_precompile_headers(${from} PRIVATE ${lockstep_precompiled_${kind}_headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${from})
  # GCC bug 105651 again: it then warns of std::string's own memcpy under two more names.
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow$<SEMICOLON>-Wno-array-bounds>)
endfunction()

# lockstep_unite(TARGET): several files of the target are compiled as one, and read what they include once. Not those
# that Highway compiles once an instruction set, and not those with options of their own. Not in the presets dev and
# clang: there each file has to stand for itself.
set(LOCKSTEP_UNITY_DEFAULT ON)  # for those who only use the library
if(PROJECT_IS_TOP_LEVEL)
  set(LOCKSTEP_UNITY_DEFAULT OFF)
endif()
option(LOCKSTEP_UNITY "Compile several files as one: a whole build takes half the time" ${LOCKSTEP_UNITY_DEFAULT})
set(LOCKSTEP_UNITY_FILES 40 CACHE STRING "So many files at most are compiled as one; 10 for those who change one file again and again")
function(lockstep_unite target)
  if(NOT LOCKSTEP_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  # GCC takes what stands in a united file for a header's, and warns of what it inlines of std::variant. The presets dev
  # and clang have both warnings.
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage$<SEMICOLON>-Wno-maybe-uninitialized>)
  # At the end, when the folders below have added their files.
  cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL lockstep_keep_apart ${target})")
endfunction()

function(lockstep_keep_apart target)
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(files ${target} SOURCES)
  string(TOUPPER "CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE}" of_type)
  set(flags "${CMAKE_CXX_FLAGS} ${${of_type}}")
  foreach(file IN LISTS files)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${folder})
    if(NOT EXISTS ${file})
      continue()  # the build makes it
    endif()
    get_source_file_property(options ${file} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
    get_source_file_property(definitions ${file} TARGET_DIRECTORY ${target} COMPILE_DEFINITIONS)
    file(STRINGS ${file} targets REGEX "HWY_TARGET_INCLUDE|-inl.h" LIMIT_COUNT 1)
    if(options OR definitions OR targets)
      set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
    if(targets AND NOT flags MATCHES "-O[123s]")  # GCC takes some of Highway's constants for variables where nothing is optimised
      set_property(SOURCE ${file} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS -O2)
    endif()
    if(options MATCHES "-fopenmp")  # which the precompiled headers were not made with
      set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  # As many files in each of the fewest parts: the last part of two is no short one.
  list(LENGTH files count)
  math(EXPR parts "(${count} + ${LOCKSTEP_UNITY_FILES} - 1) / ${LOCKSTEP_UNITY_FILES}")
  math(EXPR batch "(${count} + ${parts} - 1) / ${parts}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE ${batch})
endfunction()

# lockstep_of_cuda(TARGET): it is made of the files of src/tensor/cuda.
function(lockstep_of_cuda target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                               ${PROJECT_SOURCE_DIR}/internal ${PROJECT_BINARY_DIR}/include)
  target_include_directories(${target} SYSTEM PRIVATE ${lockstep_cuda_includes})
  target_link_libraries(${target} PRIVATE lockstep::torch lockstep_warnings)
endfunction()

# Nothing in the target computes in a step: it is compiled for speed of building.
function(lockstep_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# lockstep_module(NAME [TENSORS] [COLD] SOURCES ... DEPS modules... LINK public libraries... PRIVATE_LINK libraries...)
# builds src/NAME into the static library lockstep_NAME, alias lockstep::NAME. TENSORS: most of its files use at::Tensor
# and no torch::nn. COLD: see lockstep_cold().
function(lockstep_module name)
  cmake_parse_arguments(ARG "TENSORS;COLD" "" "SOURCES;DEPS;LINK;PRIVATE_LINK" ${ARGN})
  lockstep_check_arrows(${name} ${ARG_DEPS})
  add_library(lockstep_${name} STATIC ${ARG_SOURCES})
  add_library(lockstep::${name} ALIAS lockstep_${name})
  target_include_directories(lockstep_${name}
    PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/internal ${PROJECT_BINARY_DIR}/include
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPS PREPEND lockstep::)
  target_link_libraries(lockstep_${name} PUBLIC ${ARG_DEPS} ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK} lockstep_warnings)
  if(ARG_COLD)
    lockstep_cold(lockstep_${name})
  endif()
  if(ARG_TENSORS)
    lockstep_precompile(lockstep_${name} library)
  endif()
  lockstep_unite(lockstep_${name})
endfunction()

# The modules whose tests mostly use at::Tensor, and link libtorch.
set(LOCKSTEP_TENSOR_TESTS checkpoint comm data nn observe optim parallel tensor train)

# Gold links a test in 0.1 s, the default linker in 0.7 s.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=gold LOCKSTEP_HAS_GOLD)
set(LOCKSTEP_TEST_LINKER $<$<BOOL:${LOCKSTEP_HAS_GOLD}>:-fuse-ld=gold>)

option(LOCKSTEP_GPU_TESTS "Build the tests that need a GPU with all others; else the target gpu_tests builds them" ON)
set(LOCKSTEP_TEST_PATIENCE 1 CACHE STRING "Every timeout of a test is so many times as long: for an emulator, or a sanitizer")

# lockstep_test(MODULE UNIT [LABELS unit|ranks|golden|gpu|double|slow...] [DEPS modules...] [LINK libraries...]
#               [TIMEOUT seconds] [OWN_MAIN] [SOURCES more.cpp...] [INCLUDE folders...] [DEFINITIONS ...]
#               [NEEDS targets...])
# makes tests/MODULE/UNIT_test.cpp the test MODULE.UNIT; a unit ROOM_... may lie in tests/MODULE/ROOM. OWN_MAIN: the file
# has its own main(). NEEDS: what it starts. Label gpu: it skips itself, with the reason, where there is no GPU. With
# LOCKSTEP_UNITY one program, MODULE_united_test, has the files of the module that need no program of their own; else
# each file has one, MODULE_UNIT_test. With it, too, the unit tests without a TIMEOUT are one test, MODULE.units. The
# target MODULE_tests is all of them.
function(lockstep_test module unit)
  cmake_parse_arguments(ARG "OWN_MAIN" "TIMEOUT" "LABELS;DEPS;LINK;SOURCES;INCLUDE;DEFINITIONS;NEEDS" ${ARGN})
  set(target ${module}_${unit}_test)
  set(command ${target})
  if(LOCKSTEP_UNITY AND NOT ARG_OWN_MAIN AND NOT gpu IN_LIST ARG_LABELS)
    set(target ${module}_united_test)
    set(command ${target} --file=${unit}_test.cpp)
  endif()
  lockstep_test_program(${module} ${target})
  if(gpu IN_LIST ARG_LABELS AND NOT LOCKSTEP_GPU_TESTS)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  set(file ${unit}_test.cpp)
  if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    string(REGEX MATCH "^[a-z]+" room ${unit})
    set(file ${room}/${file})
  endif()
  target_sources(${target} PRIVATE ${file} ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE ${ARG_INCLUDE})
  target_compile_definitions(${target} PRIVATE ${ARG_DEFINITIONS})
  list(TRANSFORM ARG_DEPS PREPEND lockstep::)
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} ${ARG_LINK})
  if(NOT ARG_OWN_MAIN)
    lockstep_test_main(${target})
  endif()
  if(ARG_NEEDS)
    add_dependencies(${target} ${ARG_NEEDS})
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if("${target}" STREQUAL "${module}_united_test" AND "${ARG_LABELS}" STREQUAL "unit" AND NOT ARG_TIMEOUT)
    lockstep_unit_of_many(${module} ${unit}_test.cpp)
    return()
  endif()
  add_test(NAME ${module}.${unit} COMMAND ${command})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * ${LOCKSTEP_TEST_PATIENCE}")
  set_tests_properties(${module}.${unit} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  # On a machine with a GPU the others still test what they test everywhere.
  if(gpu IN_LIST ARG_LABELS)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_GPU_TEST_PROGRAMS ${target})
  else()
    lockstep_test_environment(${module} ${module}.${unit})
  endif()
endfunction()

# lockstep_long_tests(MODULE CASE...), before the module's first lockstep_test(): these tests of the program are left out of
# ./test, and are one test with the label `long`, MODULE.long. Only with LOCKSTEP_UNITY; else they run with their files.
function(lockstep_long_tests module)
  if(NOT LOCKSTEP_UNITY)
    return()
  endif()
  list(JOIN ARGN ":" cases)
  set_property(GLOBAL PROPERTY LOCKSTEP_LONG_TESTS_OF_${module} "GTEST_FILTER=-${cases}")
  add_test(NAME ${module}.long COMMAND ${module}_united_test --gtest_filter=${cases})
  set_tests_properties(${module}.long PROPERTIES LABELS "ranks;long" TIMEOUT 600 ENVIRONMENT LOCKSTEP_DEVICE=cpu)
endfunction()

# The short unit tests of a module are one test, MODULE.units: its program loads libtorch once (0.7 s of a core), not once
# a file.
function(lockstep_unit_of_many module file)
  get_property(files GLOBAL PROPERTY LOCKSTEP_UNITS_OF_${module})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_UNITS_OF_${module} ${file})
  if(NOT files)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL lockstep_add_units ${module})")
  endif()
endfunction()

function(lockstep_add_units module)
  get_property(files GLOBAL PROPERTY LOCKSTEP_UNITS_OF_${module})
  list(TRANSFORM files PREPEND --file=)
  add_test(NAME ${module}.units COMMAND ${module}_united_test ${files})
  math(EXPR timeout "600 * ${LOCKSTEP_TEST_PATIENCE}")
  set_tests_properties(${module}.units PROPERTIES LABELS unit TIMEOUT ${timeout})
  lockstep_test_environment(${module} ${module}.units)
endfunction()

# What is tested everywhere is tested without a GPU, and without the module's long tests.
function(lockstep_test_environment module test)
  get_property(without_long GLOBAL PROPERTY LOCKSTEP_LONG_TESTS_OF_${module})
  set_tests_properties(${test} PROPERTIES ENVIRONMENT "LOCKSTEP_DEVICE=cpu;${without_long}")
endfunction()

# The main() of tests, and what it starts ranks from.
function(lockstep_test_main target)
  if(NOT TARGET lockstep_test_main)
    add_library(lockstep_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/main_of_files.cpp
                                          ${PROJECT_SOURCE_DIR}/tests/support/rank_template.cpp)
    target_include_directories(lockstep_test_main PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(lockstep_test_main PUBLIC GTest::gtest PRIVATE lockstep_warnings)
  endif()
  target_link_libraries(${target} PRIVATE lockstep_test_main)
endfunction()

# The program of one test file or, united, of several: made when the first of them comes.
function(lockstep_test_program module target)
  if(TARGET ${target})
    return()
  endif()
  add_executable(${target})
  if(NOT TARGET ${module}_tests)
    add_custom_target(${module}_tests)
  endif()
  if(LOCKSTEP_GPU_TESTS OR NOT target MATCHES "gpu")
    add_dependencies(${module}_tests ${target})
  endif()
  if(target STREQUAL ${module}_united_test)
    lockstep_unite(${target})
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests
                                               ${PROJECT_SOURCE_DIR}/recipes)
  if(TARGET lockstep::${module})
    target_link_libraries(${target} PRIVATE lockstep::${module})
  endif()
  target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest lockstep_warnings)
  target_link_options(${target} PRIVATE ${LOCKSTEP_TEST_LINKER})
  # The code under test is optimised; its tests need not be, and compile in half the time.
  target_compile_options(${target} PRIVATE -O0)
  if(module IN_LIST LOCKSTEP_TENSOR_TESTS)
    lockstep_precompile(${target} test)
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_compile_definitions(${target} PRIVATE
    LOCKSTEP_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LOCKSTEP_TEST_BIN_DIR="${PROJECT_BINARY_DIR}/bin")
endfunction()
