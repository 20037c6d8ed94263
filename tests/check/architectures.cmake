# What CUDA's kernels are compiled for, by toolkit, by cards and by wish. Usage: cmake -P architectures.cmake, in a folder to
# write to. nvcc and nvidia-smi are made up.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../kernels/cuda/architectures.cmake)
set(bin ${CMAKE_CURRENT_BINARY_DIR}/architectures)
set(CMAKE_CUDA_COMPILER ${bin}/nvcc)
set(ENV{PATH} ${bin}:$ENV{PATH})
unset(ENV{CUDAARCHS})

function(made_up name)
  list(JOIN ARGN "\n" text)
  file(WRITE ${bin}/${name} "#!/bin/sh\ncat <<'end'\n${text}\nend\n")
  file(CHMOD ${bin}/${name} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

# ASKED is compiled as SM80, of which SM89 and SM90 are what those levels are compiled for.
function(expect asked sm80 sm89 sm90)
  set(CMAKE_CUDA_ARCHITECTURES ${asked})
  sg_cuda_choose(CMAKE_CUDA_ARCHITECTURES)
  foreach(level sm80 sm89 sm90)
    sg_cuda_codes(codes ${level})
    if(NOT "${codes}" STREQUAL "${${level}}")
      message(SEND_ERROR "\"${asked}\": ${level} is compiled for \"${codes}\", not for \"${${level}}\"")
    endif()
  endforeach()
endfunction()

made_up(nvidia-smi "No devices were found")
made_up(nvcc sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_100 sm_110 sm_103 sm_120 sm_121) # CUDA 13.0
expect("" "80-real;89-real;90-real;90-virtual" "89-real;90-real;90-virtual" 90a-real)
expect("80;89;90a" "80-real;89-real;90-real;90-virtual" "89-real;90-real;90-virtual" 90a-real)
expect(all "80-real;86-real;89-real;90-real;100-real;103-real;120-real;121-real;121-virtual"
  "89-real;90-real;100-real;103-real;120-real;121-real;121-virtual" 90a-real)
expect(89-virtual 89-virtual 89-virtual "")
expect("120;86-real" "120-real;86-real;120-virtual" "120-real;120-virtual" "")
expect(80-real 80-real "" "")

made_up(nvidia-smi 8.6)
expect("" "86-real;86-virtual" "" "")
expect(90 "90-real;90-virtual" "90-real;90-virtual" 90a-real)
made_up(nvidia-smi 9.0 9.0)
expect("" "90-real;90-virtual" "90-real;90-virtual" 90a-real)
made_up(nvidia-smi 7.5 8.9 12.0)
expect(native "89-real;120-real;120-virtual" "89-real;120-real;120-virtual" "")
made_up(nvcc sm_50 sm_80 sm_86 sm_87 sm_89 sm_90 sm_90a) # CUDA 12.0, older than one card
expect("" "89-real;90-real;90-virtual" "89-real;90-real;90-virtual" 90a-real)
expect(all "80-real;86-real;89-real;90-real;90-virtual" "89-real;90-real;90-virtual" 90a-real)
made_up(nvidia-smi 7.5)
set(ENV{CUDAARCHS} 86)
expect("" "86-real;86-virtual" "" "")
