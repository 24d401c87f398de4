# lockstep_embed_web(TARGET): builds web/ with npm and compiles the result in. Without npm, or without network access the first
# time, the program serves a plain page that says so. `npm ci` runs when web/package-lock.json has changed; nothing else in a
# build needs the network.
find_program(LOCKSTEP_NPM npm)
set(LOCKSTEP_NETWORK_PAGE ${PROJECT_BINARY_DIR}/share/lockstep/network)  # where programs in ${PROJECT_BINARY_DIR}/bin look
option(LOCKSTEP_WEB "Build the page of lockstep dashboard (needs npm)" ON)

function(lockstep_embed_web target)
  set(source ${PROJECT_SOURCE_DIR}/web)
  set(build ${PROJECT_BINARY_DIR}/web)
  set(npm "")
  if(LOCKSTEP_WEB AND LOCKSTEP_NPM)
    set(npm ${LOCKSTEP_NPM})
  else()
    message(STATUS "The page of lockstep dashboard will not be built: it needs npm (Debian: nodejs npm)")
  endif()
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${source}/src/*)
  list(APPEND files ${source}/index.html ${source}/package.json ${source}/package-lock.json ${source}/vite.config.js ${source}/vite.network.config.js)
  set(script ${PROJECT_SOURCE_DIR}/cmake/LockstepBuildWeb.cmake)
  add_custom_command(OUTPUT ${build}/assets.cpp
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DBUILD=${build} -DNETWORK=${LOCKSTEP_NETWORK_PAGE} "-DNPM=${npm}" -P ${script}
    DEPENDS ${files} ${script} COMMENT "The page of lockstep dashboard" VERBATIM)
  target_sources(${target} PRIVATE ${build}/assets.cpp)
  set_source_files_properties(${build}/assets.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
