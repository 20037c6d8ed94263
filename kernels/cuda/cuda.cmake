# Included from the root. SG_CUDA AUTO: the backend is built if a CUDA toolkit is found.
set(SG_CUDA AUTO CACHE STRING "NVIDIA backend: AUTO, ON (an error without a toolkit) or OFF")
set_property(CACHE SG_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SG_CUDA_LIBRARIES "" CACHE STRING
  "Folders, between colons, where cublasLt and cuDNN are looked for after the system's and the toolkit's")
set(SG_HAVE_CUDA OFF)

include(${CMAKE_CURRENT_LIST_DIR}/architectures.cmake)
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
    sg_cuda_choose(CMAKE_CUDA_ARCHITECTURES)
    set_property(TARGET sg_kernels PROPERTY CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES}) # older than the choice
    enable_language(CUDA)
    find_package(CUDAToolkit 12.0)
    set(SG_HAVE_CUDA ${CUDAToolkit_FOUND})
  endif()
  if(NOT SG_HAVE_CUDA AND SG_CUDA STREQUAL "AUTO")
    message(NOTICE "sparge-gen: built for the CPU alone: no CUDA toolkit 12.0 or newer is found; CUDACXX may name its nvcc")
  elseif(NOT SG_HAVE_CUDA)
    message(FATAL_ERROR "SG_CUDA is ON, but no CUDA toolkit 12.0 or newer is found; CUDACXX may name its nvcc")
  endif()
endif()

# An object library of sg_kernels with a level's sources, if one of CMAKE_CUDA_ARCHITECTURES has that level. cuda_backend.c is
# told for which it is compiled. FOLDERS are the library's own, beside kernels/ and this one.
function(sg_cuda_level name level folders)
  sg_cuda_codes(codes ${level})
  if(NOT codes)
    return()
  endif()
  string(TOUPPER ${level} macro)
  list(JOIN codes " " text)
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/kernels/cuda/cuda_backend.c APPEND PROPERTY
    COMPILE_DEFINITIONS "SG_CUDA_${macro}=\"${text}\"")
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "${codes}" POSITION_INDEPENDENT_CODE ON
    CUDA_RUNTIME_LIBRARY Static)
  target_include_directories(${name} PRIVATE kernels ${PROJECT_SOURCE_DIR}/kernels/cuda ${folders})
  # -O3 also in debug builds, as for the CPU's kernels. gcc's -Wpedantic does not stand what nvcc writes. Members that an
  # initialiser does not name are 0, and constants of two enums may be multiplied, as in C. CMake learns of C++20, whose
  # initialisers name members, later than nvcc.
  target_compile_options(${name} PRIVATE -std=c++20 -O3
    -Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-missing-field-initializers,-Wno-deprecated-enum-enum-conversion
    -Xcompiler=-fvisibility=hidden)
  if(CMAKE_COMPILE_WARNING_AS_ERROR)
    target_compile_options(${name} PRIVATE --Werror=all-warnings -Xcompiler=-Werror)
  endif()
  target_sources(sg_kernels PRIVATE $<TARGET_OBJECTS:${name}>)
endfunction()

if(SG_HAVE_CUDA)
  set(cuda ${CMAKE_CURRENT_LIST_DIR})
  sg_cuda_level(sg_cuda sm80 "" ${cuda}/elem.cu ${cuda}/norm_rope.cu ${cuda}/group_norm.cu
    ${cuda}/data_movement.cu ${cuda}/linear.cu ${cuda}/quant.cu ${cuda}/gemm.cu ${cuda}/conv.cu ${cuda}/attend.cu
    ${cuda}/attend_short.cu ${cuda}/attend_mma.cu
    ${cuda}/attend_large_head.cu)
  target_sources(sg_kernels PRIVATE ${cuda}/cuda_backend.c ${cuda}/cuda_memory.c ${cuda}/cuda_call.c ${cuda}/cuda_lt.c
    ${cuda}/cuda_dnn.c ${cuda}/cuda_graph.c ${cuda}/cuda_clocks.c)
  target_include_directories(sg_kernels PRIVATE ${cuda})
  # cublasLt and cuDNN are opened at run time: see cuda_lt.c.
  set_property(SOURCE ${cuda}/cuda_call.c APPEND PROPERTY
    COMPILE_DEFINITIONS SG_CUDA_LIBRARIES="${CUDAToolkit_LIBRARY_DIR}:${SG_CUDA_LIBRARIES}")
  target_link_libraries(sg_kernels PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
  set_property(TARGET sg_kernels APPEND PROPERTY COMPILE_DEFINITIONS SG_CUDA=1)
endif()
