# The targets that a project links if it adds Lockstep as a subdirectory; the installed package uses the same names.
#   lockstep::core      rendezvous, launcher, terminal views, settings: without torch
#   lockstep::lockstep  all of the library
#   lockstep::recipes   the recipes' tasks as well (with LOCKSTEP_RECIPES)
# lockstep_umbrella(NAME targets...)
function(lockstep_umbrella name)
  add_library(lockstep_${name}_umbrella INTERFACE)
  add_library(lockstep::${name} ALIAS lockstep_${name}_umbrella)
  target_link_libraries(lockstep_${name}_umbrella INTERFACE ${ARGN})
  target_compile_features(lockstep_${name}_umbrella INTERFACE cxx_std_20)
endfunction()

set(LOCKSTEP_CORE_MODULES base store wire flight simulate view launch)
set(LOCKSTEP_TRAIN_MODULES tensor comm data optim nn parallel checkpoint observe http dashboard train)
set(LOCKSTEP_RECIPE_TARGETS "")
if(LOCKSTEP_RECIPES)
  foreach(recipe IN ITEMS common captcha detection segmentation captioning)
    get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR}/recipes/${recipe} PROPERTY BUILDSYSTEM_TARGETS)
    list(FILTER targets INCLUDE REGEX "^lockstep_recipe_")
    list(APPEND LOCKSTEP_RECIPE_TARGETS ${targets})
  endforeach()
endif()

lockstep_umbrella(core lockstep::launch lockstep::view lockstep::flight lockstep::simulate lockstep::wire lockstep::store lockstep::base)
lockstep_umbrella(lockstep lockstep::train lockstep::core)
if(LOCKSTEP_RECIPES)
  lockstep_umbrella(recipes ${LOCKSTEP_RECIPE_TARGETS} lockstep::lockstep)
endif()
