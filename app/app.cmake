# app: included by the top CMakeLists.txt, so paths are relative to the top.
# Its private include folders; tests, which have the program without its main, have them too.
set(app_folders ${PROJECT_SOURCE_DIR}/app)
foreach(folder bench compare eval output)
  list(APPEND app_folders ${PROJECT_SOURCE_DIR}/app/${folder})
endforeach()
target_include_directories(sparge-gen PRIVATE ${app_folders})

target_sources(sparge-gen PRIVATE
  app/main.c app/options.c app/option_table.c app/option_rules.c app/command_table.c app/help.c app/shell_completion.c app/setup.c app/setup_attention.c app/rank.c
  app/interrupt.c app/progress.c app/notices.c app/wait_policy.c app/image.c app/picture.c app/preview_file.c app/image_grid.c app/render_outputs.c app/report.c app/report_attention.c app/build_facts.c
  app/command_render.c app/command_info.c app/command_check.c app/command_tune.c app/tune_cache.c app/video_input.c
  app/bench/bench.c app/bench/bench_step.c app/bench/bench_attention.c app/bench/bench_cold.c app/bench/bench_input.c
  app/compare/command_compare.c app/compare/compare_arms.c app/compare/compare_files.c app/compare/report_arms.c
  app/compare/arms.c app/compare/arm_setup.c app/compare/interval.c app/compare/speedup.c
  app/compare/clip_reader.c app/compare/clip_y4m.c app/compare/frame_list.c
  app/compare/metrics.c app/compare/clip_figures.c app/compare/clip_scores.c app/compare/clip_similarity.c
  app/compare/caption.c app/compare/collage.c
  app/eval/command_eval.c app/eval/eval_open.c app/eval/eval_unit.c app/eval/eval_request.c
  app/eval/eval_files.c app/eval/eval_log.c
  app/eval/eval_manifest.c app/eval/eval_results.c app/eval/eval_summary.c app/eval/eval_report.c app/eval/clip_names.c
  app/eval/eval_pictures.c app/eval/eval_similarity.c
  app/output/sink.c app/output/sink_png.c app/output/sink_jpeg.c app/output/sink_y4m.c app/output/report_page.c
  app/output/report_command.c app/output/report_result.c)
if(SG_FFMPEG)
  target_sources(sparge-gen PRIVATE app/output/sink_video.c app/output/sink_mp4.c app/output/mp4_encoder.c app/output/sink_mkv.c
    app/output/sink_webp.c
    app/compare/clip_video.c)
endif()
target_compile_definitions(sparge-gen PRIVATE
  SG_FFMPEG=$<BOOL:${SG_FFMPEG}> SG_VERSION="${PROJECT_VERSION}"
  SG_MODEL_DIR="${PROJECT_SOURCE_DIR}/weights/tiny-wan")
target_include_directories(sparge-gen SYSTEM PRIVATE ${STB_INCLUDE})
target_link_libraries(sparge-gen PRIVATE sg_model sg_prompts sg_flags PkgConfig::UTF8PROC PNG::PNG JPEG::JPEG PkgConfig::JANSSON Threads::Threads
  $<$<BOOL:${SG_FFMPEG}>:PkgConfig::FFMPEG>)

# the templates of pages, with what they have in common, as bytes in the program
file(READ app/output/report_head.html head)
file(READ app/output/report_style.css style)
file(READ app/output/report_common.js script)
foreach(template compare/report_arms eval/report_eval)
  get_filename_component(page ${template} NAME)
  file(READ app/${template}.html bytes)
  string(REPLACE "@HEAD@\n" "${head}" bytes "${bytes}")
  string(REPLACE "@STYLE@" "${style}" bytes "${bytes}")
  string(REPLACE "@SCRIPT@" "${script}" bytes "${bytes}")
  string(HEX "${bytes}" bytes)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  set(page_source ${PROJECT_BINARY_DIR}/${page}_page.c)
  file(CONFIGURE OUTPUT ${page_source} CONTENT
    "#include \"report_page.h\"\nconst char sg_${page}_page[] = {${bytes}0};\n")
  target_sources(sparge-gen PRIVATE ${page_source})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  app/output/report_head.html app/output/report_style.css app/output/report_common.js
  app/compare/report_arms.html app/eval/report_eval.html)
