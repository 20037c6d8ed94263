# Run by cpack before it packs what is installed. An archive also gets every library that the program needs, but the C
# library, and their notices with a list of where they are from: whoever hands it on owes these, and of some the sources.
if(CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(program ${root}/bin/sparge-gen)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} RESOLVED_DEPENDENCIES_VAR libraries
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|mvec|dl|rt|pthread|resolv|util|anl)\\.so\\.")
file(COPY ${CMAKE_CURRENT_LIST_DIR}/../LICENSE DESTINATION ${root}/share/doc/sparge-gen)
file(COPY ${libraries} DESTINATION ${root}/lib/sparge-gen FOLLOW_SYMLINK_CHAIN)

# A script says where they are: the loader knows where a program lies by /proc alone, which a chroot may lack.
file(RENAME ${program} ${root}/lib/sparge-gen/sparge-gen)
file(WRITE ${program} [[
#!/bin/sh
self=$(readlink -f "$0")
lib=${self%/bin/*}/lib/sparge-gen
LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$lib/sparge-gen" "$@"
]])
file(CHMOD ${program} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(notices ${root}/share/doc/sparge-gen/libraries)
set(list "The libraries in lib/sparge-gen are the distribution's, unchanged. Their notices are in this folder. Where some are
under the GPL, as FFmpeg is in Debian, so is this archive as a whole: version 3.

")
foreach(library ${libraries})
  get_filename_component(name ${library} NAME)
  file(REAL_PATH ${library} file)
  string(REGEX REPLACE "^/usr/" "/" before_merge ${file}) # packages of Debian 12 still say /lib
  execute_process(COMMAND dpkg-query --search ${file} ${before_merge} OUTPUT_VARIABLE owner ERROR_QUIET)
  if(NOT owner)
    message(WARNING "${library} is of no package; its notice is missing")
    string(APPEND list "${name}: of no package\n")
    continue()
  endif()
  string(REGEX REPLACE "[:,].*" "" package ${owner})
  execute_process(COMMAND dpkg-query --show --showformat "\${source:Package}/\${source:Version}" ${package}
    OUTPUT_VARIABLE source)
  string(APPEND list "${name}: ${package}, source https://snapshot.debian.org/package/${source}/\n")
  configure_file(/usr/share/doc/${package}/copyright ${notices}/${package} COPYONLY)
endforeach()
file(WRITE ${notices}/README "${list}")
if(EXISTS /usr/share/common-licenses) # which the notices refer to
  file(COPY /usr/share/common-licenses DESTINATION ${notices})
endif()
