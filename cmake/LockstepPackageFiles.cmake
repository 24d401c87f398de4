# Adapts the result of `cmake --install` to Debian's rules; cpack runs this on the folders that become packages.
#   - no run paths: the libraries are where the loader searches
#   - zsh's completion in the folder that Debian's zsh reads
#   - compressed man pages and changelogs, without timestamps
file(GLOB_RECURSE files LIST_DIRECTORIES false ${CPACK_TEMPORARY_DIRECTORY}/*)
foreach(file IN LISTS files)
  if(IS_SYMLINK ${file})
    continue()
  endif()
  if(file MATCHES "/bin/[^/]+$|\\.so[.0-9]*$")
    file(RPATH_REMOVE FILE ${file})
  elseif(file MATCHES "/man/man1/|/doc/[^/]+/changelog$")
    execute_process(COMMAND gzip -9n ${file} COMMAND_ERROR_IS_FATAL ANY)
  elseif(file MATCHES "^(.*/share/zsh)/site-functions/_lockstep$")
    file(MAKE_DIRECTORY ${CMAKE_MATCH_1}/vendor-completions)
    file(RENAME ${file} ${CMAKE_MATCH_1}/vendor-completions/_lockstep)
    file(REMOVE_RECURSE ${CMAKE_MATCH_1}/site-functions)
  endif()
endforeach()
