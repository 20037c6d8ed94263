# Included from the root. libspargegen: kernels and attention as one library for other programs, and how pkg-config
# finds it. Static always; shared too with SG_SHARED, and then only what attention.h declares is visible.
include(GNUInstallDirs)

# The objects of a level are sources of sg_kernels, so they are not among its own objects.
get_target_property(levels sg_kernels SOURCES)
list(FILTER levels INCLUDE REGEX "TARGET_OBJECTS")
set(objects $<TARGET_OBJECTS:sg_kernels> $<TARGET_OBJECTS:sg_attention> ${levels})

# The static library is one object, so that only what attention.h declares is visible in it, too. CUDA's runtime is in it,
# as in the shared one: neither its names nor ours meet those of the program, which needs no toolkit.
add_custom_command(OUTPUT spargegen.o DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM
  COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -Wl,--force-group-allocation -o spargegen.o
    ${objects} $<$<BOOL:${SG_HAVE_CUDA}>:${CUDA_cudart_static_LIBRARY}>
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden spargegen.o)
add_library(spargegen STATIC ${PROJECT_BINARY_DIR}/spargegen.o)
set_target_properties(spargegen PROPERTIES LINKER_LANGUAGE C)
set(libraries spargegen)
if(SG_SHARED)
  add_library(spargegen_shared SHARED ${objects})
  set_target_properties(spargegen_shared PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME spargegen
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  get_target_property(needed sg_kernels LINK_LIBRARIES)
  target_link_libraries(spargegen_shared PRIVATE sg_flags ${needed})
  list(APPEND libraries spargegen_shared)
endif()

# What who links the static library has to name, too, and the files that this means, whose packages the Debian package
# depends on. A library outside of the compiler's own folders brings its folder.
function(sg_pc_library path)
  get_filename_component(dir ${path} DIRECTORY)
  get_filename_component(name ${path} NAME_WE)
  string(REGEX REPLACE "^lib" "" name ${name})
  set(flags -l${name})
  if(NOT dir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    set(flags -L${dir} ${flags})
  endif()
  set(private ${private} ${flags} PARENT_SCOPE)
  set(linked ${linked} ${path} PARENT_SCOPE)
endfunction()
set(private)
set(linked)
if(SG_ONEDNN)
  sg_pc_library(${DNNL_LIBRARY})
endif()
if(SG_HAVE_CUDA OR (SG_ONEDNN AND DNNL_LIBRARY MATCHES "\\.a$"))
  find_library(SG_LIBSTDCXX stdc++ PATHS ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
  sg_pc_library(${SG_LIBSTDCXX})
endif()
foreach(name ${OpenMP_C_LIB_NAMES})
  sg_pc_library(${OpenMP_${name}_LIBRARY})
endforeach()
find_library(SG_LIBM m REQUIRED)
mark_as_advanced(SG_LIBM SG_LIBSTDCXX)
sg_pc_library(${SG_LIBM})
list(JOIN private " " SG_PC_PRIVATE)
set(SG_PC_LIBS "-lspargegen -lm")
if(NOT SG_SHARED) # then everyone links the static one, and many forget to say so
  set(SG_PC_LIBS "-lspargegen ${SG_PC_PRIVATE}")
  set(SG_PC_PRIVATE)
endif()

set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH SG_PC_PREFIX /prefix/${pc_dir} /prefix)
string(REGEX REPLACE "/$" "" SG_PC_PREFIX ${SG_PC_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/spargegen.pc.in ${PROJECT_BINARY_DIR}/spargegen.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/spargegen.pc DESTINATION ${pc_dir} COMPONENT development)
install(TARGETS ${libraries} ARCHIVE COMPONENT development LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(FILES attention/attention.h kernels/status.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/spargegen
  COMPONENT development)
