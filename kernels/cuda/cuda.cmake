# Included from the root. SG_CUDA AUTO: the backend is built if a CUDA toolkit is found, and nothing is said if not.
set(SG_CUDA AUTO CACHE STRING "NVIDIA backend: AUTO, ON (an error without a toolkit) or OFF")
set_property(CACHE SG_CUDA PROPERTY STRINGS AUTO ON OFF)
option(SG_CUDA_PTX "No machine code, so that every GPU runs the PTX that newer ones compile for themselves" OFF)
set(SG_HAVE_CUDA OFF)
if(SG_CUDA)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(SG_NVCC nvcc PATHS /usr/local/cuda/bin /opt/cuda/bin)
    mark_as_advanced(SG_NVCC)
    if(SG_NVCC)
      set(CMAKE_CUDA_COMPILER ${SG_NVCC})
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # 8.0, also as PTX, which newer devices compile for themselves, and machine code for 9.0.
    set(CMAKE_CUDA_ARCHITECTURES 80 90-real) # of what is defined from here on; sg_kernels is older
    set(sm89_architectures 89 90-real)
    if(SG_CUDA_PTX)
      set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
      set(sm89_architectures 89-virtual)
    endif()
    set_property(TARGET sg_kernels PROPERTY CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    find_package(CUDAToolkit 12.0)
    set(SG_HAVE_CUDA ${CUDAToolkit_FOUND})
  endif()
  if(NOT SG_HAVE_CUDA AND NOT SG_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "SG_CUDA is ON, but no CUDA toolkit 12.0 or newer is found; CUDACXX may name its nvcc")
  endif()
endif()

if(SG_HAVE_CUDA)
  set(cuda ${CMAKE_CURRENT_LIST_DIR})
  add_library(sg_cuda OBJECT ${cuda}/elem.cu ${cuda}/norm_rope.cu ${cuda}/data_movement.cu ${cuda}/linear.cu ${cuda}/conv.cu
    ${cuda}/attend.cu ${cuda}/attend_short.cu ${cuda}/attend_mma.cu ${cuda}/attend_large_head.cu)
  add_library(sg_cuda_sm89 OBJECT) # what has no code for 8.0
  set_target_properties(sg_cuda_sm89 PROPERTIES CUDA_ARCHITECTURES "${sm89_architectures}")
  add_library(sg_cuda_sm90 OBJECT) # what only Hopper has: no other device runs code for 9.0a
  set_target_properties(sg_cuda_sm90 PROPERTIES CUDA_ARCHITECTURES 90a-real)
  foreach(level sg_cuda sg_cuda_sm89 sg_cuda_sm90)
    target_include_directories(${level} PRIVATE kernels ${cuda})
    target_compile_features(${level} PRIVATE cuda_std_17)
    # -O3 also in debug builds, as for the CPU's kernels. gcc's -Wpedantic does not stand what nvcc writes.
    target_compile_options(${level} PRIVATE -O3 -Xcompiler=-Wall,-Wextra,-Wshadow,-fvisibility=hidden)
    if(CMAKE_COMPILE_WARNING_AS_ERROR)
      target_compile_options(${level} PRIVATE --Werror=all-warnings -Xcompiler=-Werror)
    endif()
    set_target_properties(${level} PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_RUNTIME_LIBRARY Static)
  endforeach()
  target_sources(sg_kernels PRIVATE ${cuda}/cuda_backend.c ${cuda}/cuda_memory.c ${cuda}/cuda_call.c ${cuda}/cuda_lt.c
    ${cuda}/cuda_dnn.c ${cuda}/cuda_graph.c
    $<TARGET_OBJECTS:sg_cuda> $<TARGET_OBJECTS:sg_cuda_sm89> $<TARGET_OBJECTS:sg_cuda_sm90>)
  target_include_directories(sg_kernels PRIVATE ${cuda})
  # cublasLt and cuDNN are opened at run time: see cuda_lt.c.
  set_property(SOURCE ${cuda}/cuda_call.c APPEND PROPERTY
    COMPILE_DEFINITIONS SG_CUDA_LIBRARIES="${CUDAToolkit_LIBRARY_DIR}")
  target_link_libraries(sg_kernels PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
  set_property(TARGET sg_kernels APPEND PROPERTY COMPILE_DEFINITIONS SG_CUDA=1)
endif()
