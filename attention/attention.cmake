# Included from the root. The kernels of the stages fill entries of the op table and belong to sg_kernels; what puts them
# together is a library of its own.
set(attention ${CMAKE_CURRENT_LIST_DIR})
foreach(level base avx2 avx512)
  sg_cpu_level(sg_sparse ${level} ${attention}/cpu/vec_pool.c ${attention}/cpu/vec_quantise.c ${attention}/cpu/vec_score.c
    ${attention}/cpu/vec_select.c ${attention}/cpu/vec_blocks.c)
endforeach()
foreach(level avx2 avx_vnni avx512_vnni)
  sg_cpu_level(sg_int8 ${level} ${attention}/cpu/int8_blocks.c)
endforeach()
sg_cpu_level(sg_sparse amx ${attention}/cpu/amx_blocks.c ${attention}/cpu/amx_score.c)
target_sources(sg_kernels PRIVATE ${attention}/ref/ref_blocks.c ${attention}/ref/ref_attend_blocks.c
  ${attention}/ref/ref_blocks_rounded.c)

if(SG_HAVE_CUDA)
  sg_cuda_level(sg_sparse_cuda sm80 ${attention}/cuda ${attention}/cuda/pool.cu
    ${attention}/cuda/score.cu ${attention}/cuda/select.cu ${attention}/cuda/blocks_mma.cu)
  sg_cuda_level(sg_sparse_cuda_sm89 sm89 ${attention}/cuda ${attention}/cuda/blocks_f8.cu)
  sg_cuda_level(sg_sparse_cuda_sm90 sm90 ${attention}/cuda ${attention}/cuda/blocks_wgmma.cu)
endif()

add_library(sg_attention STATIC ${attention}/policy.c ${attention}/order.c ${attention}/run.c ${attention}/run_counts.c
  ${attention}/attention.c ${attention}/tune.c ${attention}/attention_error.c)
target_include_directories(sg_attention PUBLIC ${attention} PRIVATE ${attention}/cpu)
target_link_libraries(sg_attention PUBLIC sg_kernels PRIVATE sg_flags)

# The files of tuned thresholds, which stand on weights/, too.
add_library(sg_thresholds STATIC ${attention}/thresholds/thresholds.c ${attention}/thresholds/thresholds_spargeattn.c)
target_link_libraries(sg_thresholds PUBLIC sg_attention PRIVATE sg_weights PkgConfig::JANSSON sg_flags)
