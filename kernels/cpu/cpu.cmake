# Included from the root. The vec_*.c and bf16_*.c files are compiled once per level, each time with its flags alone;
# nothing else may see those flags.
set(cpu ${CMAKE_CURRENT_LIST_DIR})
target_sources(sg_kernels PRIVATE ${cpu}/cpu.c ${cpu}/cpu_features.c ${cpu}/cpu_levels.c ${cpu}/packed_weights.c ${cpu}/data_movement.c
  ${cpu}/replicated_edges.c)

set(base_flags -msse2)
set(avx2_flags -mavx2 -mfma)
set(avx_vnni_flags ${avx2_flags} -mavxvnni)
set(avx512_flags -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
set(avx512_vnni_flags ${avx512_flags} -mavx512vnni)
set(avx512_bf16_flags ${avx512_vnni_flags} -mavx512bf16)
set(amx_flags ${avx512_bf16_flags} -mamx-tile -mamx-bf16 -mamx-int8)

# A product and the sum it goes into may be one instruction; nothing else of -ffast-math is wanted. -O3 also in debug
# builds: without it these files are a hundred times slower than what they stand in for.
set(SG_LEVELS_OF "" CACHE PATH "A build folder whose objects of these files serve this build, too")
function(sg_cpu_level name level)
  if(SG_LEVELS_OF)
    foreach(source ${ARGN})
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
      set(object ${SG_LEVELS_OF}/CMakeFiles/${name}_${level}.dir/${path}.o)
      set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
      target_sources(sg_kernels PRIVATE ${object})
    endforeach()
    return()
  endif()
  add_library(${name}_${level} OBJECT ${ARGN})
  target_include_directories(${name}_${level} PRIVATE kernels ${PROJECT_SOURCE_DIR}/kernels/cpu)
  target_compile_definitions(${name}_${level} PRIVATE SG_LEVEL=${level})
  target_compile_options(${name}_${level} PRIVATE ${${level}_flags} -O3 -ffp-contract=fast
    # clang 14 moves 64 bytes to and from a stack that it has not aligned, where registers run out
    $<$<C_COMPILER_ID:Clang>:-mstackrealign>)
  target_link_libraries(${name}_${level} PRIVATE $<IF:$<BOOL:${SG_SANITIZE_KERNELS}>,sg_flags,sg_plain_flags>)
  target_sources(sg_kernels PRIVATE $<TARGET_OBJECTS:${name}_${level}>)
endfunction()

foreach(level base avx2 avx512)
  sg_cpu_level(sg_cpu ${level} ${cpu}/vec_elem.c ${cpu}/vec_norm.c ${cpu}/vec_matmul.c ${cpu}/vec_winograd.c ${cpu}/vec_attend.c)
endforeach()
foreach(level avx512_bf16 amx)
  sg_cpu_level(sg_cpu ${level} ${cpu}/bf16_attend.c)
endforeach()

if(SG_ONEDNN)
  target_sources(sg_kernels PRIVATE ${cpu}/onednn.c ${cpu}/onednn_isa.c)
  target_compile_definitions(sg_kernels PRIVATE SG_ONEDNN=1)
  target_link_libraries(sg_kernels PRIVATE DNNL::dnnl)
endif()
