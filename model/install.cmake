# Included from the root. libspargegen: models and all below them as one library for other programs, and how pkg-config
# and CMake find it. Shared, or static where SG_SHARED is OFF; only what a public header declares is visible.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The objects of a level are sources of sg_kernels, so they are not among its own objects.
get_target_property(objects sg_kernels SOURCES)
list(FILTER objects INCLUDE REGEX "TARGET_OBJECTS")
foreach(library kernels attention thresholds weights model)
  list(APPEND objects $<TARGET_OBJECTS:sg_${library}>)
endforeach()

# Files that who links the library links too, for their packages, and the flags that name them: none of the shared one.
set(linked)
set(private)
if(SG_SHARED)
  add_library(spargegen SHARED ${objects})
  target_link_libraries(spargegen PRIVATE sg_model sg_flags)
  # An archive brings libraries of its own (app/package.cmake). Only RPATH holds for what these need from each other.
  file(RELATIVE_PATH bundled /prefix/${CMAKE_INSTALL_LIBDIR} /prefix/lib/sparge-gen)
  target_link_options(spargegen PRIVATE LINKER:--disable-new-dtags)
  set_target_properties(spargegen PROPERTIES LINKER_LANGUAGE C INSTALL_RPATH "$ORIGIN/${bundled}"
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
else()
  # One object, so that here, too, nothing else is visible. CUDA's runtime is in it, as in the shared one: neither its names
  # nor ours meet those of the program, which needs no toolkit.
  add_custom_command(OUTPUT spargegen.o DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -Wl,--force-group-allocation -o spargegen.o
      ${objects} $<$<BOOL:${SG_HAVE_CUDA}>:${CUDA_cudart_static_LIBRARY}>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden spargegen.o)
  add_library(spargegen STATIC ${PROJECT_BINARY_DIR}/spargegen.o)
  set_target_properties(spargegen PROPERTIES LINKER_LANGUAGE C)
  if(SG_FFMPEG)
    list(APPEND linked ${FFMPEG_LINK_LIBRARIES})
  endif()
  list(APPEND linked ${PNG_LIBRARIES} ${JPEG_LIBRARIES} ${JANSSON_LINK_LIBRARIES} ${UTF8PROC_LINK_LIBRARIES})
  if(SG_ONEDNN)
    list(APPEND linked ${DNNL_LIBRARY})
  endif()
  if(SG_HAVE_CUDA OR (SG_ONEDNN AND DNNL_LIBRARY MATCHES "\\.a$"))
    find_library(SG_LIBSTDCXX stdc++ PATHS ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
    list(APPEND linked ${SG_LIBSTDCXX})
  endif()
  foreach(name ${OpenMP_C_LIB_NAMES})
    list(APPEND linked ${OpenMP_${name}_LIBRARY})
  endforeach()
  find_library(SG_LIBM m REQUIRED)
  list(APPEND linked ${SG_LIBM})
  mark_as_advanced(SG_LIBM SG_LIBSTDCXX)
  foreach(path ${linked}) # one outside of the compiler's own folders brings its folder
    get_filename_component(dir ${path} DIRECTORY)
    get_filename_component(name ${path} NAME_WE)
    string(REGEX REPLACE "^lib" "" name ${name})
    if(NOT dir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
      list(APPEND private -L${dir})
    endif()
    list(APPEND private -l${name})
  endforeach()
  target_link_libraries(spargegen INTERFACE ${private})
endif()

list(JOIN private " " SG_PC_PRIVATE) # in Libs: everyone links the static one here, and many forget to say so
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH SG_PC_PREFIX /prefix/${pc_dir} /prefix)
string(REGEX REPLACE "/$" "" SG_PC_PREFIX ${SG_PC_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/spargegen.pc.in ${PROJECT_BINARY_DIR}/spargegen.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/spargegen.pc DESTINATION ${pc_dir} COMPONENT development)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/spargegen)
install(TARGETS spargegen EXPORT spargegen ARCHIVE COMPONENT development
  LIBRARY COMPONENT library NAMELINK_COMPONENT development INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT spargegen NAMESPACE spargegen:: FILE spargegen-config.cmake DESTINATION ${package_dir} COMPONENT development)
write_basic_package_version_file(spargegen-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/spargegen-config-version.cmake DESTINATION ${package_dir} COMPONENT development)
install(FILES attention/attention.h attention/policy.h kernels/block_rule.h kernels/status.h model/spargegen/clip_model.h
  model/spargegen/clips.h model/spargegen/spargegen.h weights/model_parts.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/spargegen COMPONENT development)
