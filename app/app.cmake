# app: included by the top CMakeLists.txt, so paths are relative to the top.
# Its private include folders; tests, which have the program without its main, have them too. tests/lint/run.sh has the
# table of which of them may include from which.
set(app_folders)
foreach(folder bench command compare eval language metric options output report serve session)
  list(APPEND app_folders ${PROJECT_SOURCE_DIR}/app/${folder})
endforeach()
target_include_directories(sparge-gen PRIVATE ${app_folders})

target_sources(sparge-gen PRIVATE
  app/main.c
  app/options/arms.c app/options/command_table.c app/options/help.c app/options/option_names.c app/options/option_rules.c
  app/options/option_table.c app/options/options.c app/options/settings.c app/options/shell_completion.c
  app/session/clip_reader.c app/session/clip_y4m.c app/session/environment.c app/session/file_options.c app/session/forecast.c
  app/session/frame_list.c app/session/image_reader.c app/session/image_stb.c app/session/image_webp.c
  app/session/interrupt.c app/session/notices.c app/session/output_options.c
  app/session/picture.c app/session/progress.c app/session/rank.c app/session/resolve.c app/session/session.c
  app/session/setup.c app/session/video_input.c app/session/wait_policy.c
  app/language/answer_score.c
  app/metric/clip_figures.c app/metric/clip_scores.c app/metric/clip_similarity.c app/metric/metrics.c
  app/output/caption.c app/output/collage.c app/output/preview_file.c
  app/report/build_facts.c app/report/interval.c app/report/json_build.c app/report/line_log.c
  app/report/report.c
  app/report/report_attention.c app/report/report_page.c app/report/report_result.c app/report/report_settings.c
  app/command/command_check.c app/command/command_info.c app/command/command_render.c app/command/command_tune.c
  app/command/render_names.c app/command/tune_result.c app/command/tune_text.c
  app/bench/bench.c app/bench/bench_attention.c app/bench/bench_cold.c app/bench/bench_input.c app/bench/bench_language.c
  app/bench/bench_rule.c app/bench/block_choice.c app/bench/planted_keys.c
  app/bench/bench_shapes.c app/bench/bench_step.c
  app/compare/arm_run.c app/compare/arm_same.c app/compare/command_compare.c app/compare/compare_arms.c
  app/compare/compare_files.c app/compare/compare_state.c app/compare/report_arms.c app/compare/run_folder.c
  app/compare/speedup.c
  app/eval/clip_names.c app/eval/command_eval.c app/eval/eval_files.c app/eval/eval_log.c app/eval/eval_manifest.c
  app/eval/eval_open.c app/eval/eval_order.c app/eval/eval_pictures.c app/eval/eval_report.c app/eval/eval_request.c app/eval/eval_results.c
  app/eval/eval_similarity.c app/eval/eval_summary.c app/eval/eval_unit.c
  app/language/answer_score.c app/language/command_language.c app/language/language_items.c app/language/language_prefill.c
  app/language/language_results.c app/language/language_run.c
  app/serve/job.c app/serve/job_engine.c app/serve/job_events.c app/serve/job_folder.c app/serve/job_queue.c
  app/serve/job_runner.c app/serve/serve_options.c app/serve/served_files.c)
if(SG_FFMPEG)
  target_sources(sparge-gen PRIVATE app/session/clip_video.c)
endif()
if(SG_SERVE)
  target_sources(sparge-gen PRIVATE
    app/serve/api.c app/serve/api_jobs.c app/serve/api_openai.c app/serve/api_routes.c app/serve/api_sdapi.c
    app/serve/api_videos.c app/serve/command_serve.c app/serve/http_form.c app/serve/http_head.c app/serve/http_parse.c
    app/serve/http_request.c app/serve/http_server.c app/serve/serve_page.c)
else()
  target_sources(sparge-gen PRIVATE app/serve/serve_missing.c)
endif()
target_compile_definitions(sparge-gen PRIVATE
  SG_FFMPEG=$<BOOL:${SG_FFMPEG}> SG_STB_IMAGE=$<BOOL:${SG_STB_IMAGE}> SG_SERVE=$<BOOL:${SG_SERVE}> SG_VERSION="${PROJECT_VERSION}"
  SG_MODEL_DIR="${PROJECT_SOURCE_DIR}/weights/tiny-wan")
target_include_directories(sparge-gen SYSTEM PRIVATE ${STB_INCLUDE} $<$<BOOL:${SG_STB_IMAGE}>:${STB_IMAGE_INCLUDE}>)
target_link_libraries(sparge-gen PRIVATE sg_model sg_prompts sg_flags PkgConfig::UTF8PROC PNG::PNG JPEG::JPEG PkgConfig::JANSSON Threads::Threads
  $<$<BOOL:${SG_FFMPEG}>:PkgConfig::FFMPEG> $<$<BOOL:${SG_SERVE}>:PkgConfig::MICROHTTPD>)

# pages and templates of pages, with the script and style that they share, as bytes in the program
function(sg_page_bytes symbol header bytes)
  string(HEX "${bytes}" bytes)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  set(page_source ${PROJECT_BINARY_DIR}/${symbol}.c)
  file(CONFIGURE OUTPUT ${page_source} CONTENT "#include \"${header}\"\nconst char sg_${symbol}[] = {${bytes}0};\n")
  target_sources(sparge-gen PRIVATE ${page_source})
endfunction()
file(READ app/report/report_head.html head)
file(READ app/report/report_style.css style)
file(READ app/report/report_common.js script)
foreach(template compare/report_arms eval/report_eval language/report_language)
  get_filename_component(page ${template} NAME)
  file(READ app/${template}.html bytes)
  string(REPLACE "@HEAD@\n" "${head}" bytes "${bytes}")
  string(REPLACE "@STYLE@" "${style}" bytes "${bytes}")
  string(REPLACE "@SCRIPT@" "${script}" bytes "${bytes}")
  sg_page_bytes(${page}_page report_page.h "${bytes}")
endforeach()
if(SG_SERVE)
  foreach(part html js css)
    file(READ app/serve/page.${part} page_${part})
  endforeach()
  sg_page_bytes(serve_page_html serve_page.h "${page_html}")
  sg_page_bytes(serve_page_js serve_page.h "${script}${page_js}")
  sg_page_bytes(serve_page_css serve_page.h "${style}${page_css}")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  app/report/report_head.html app/report/report_style.css app/report/report_common.js
  app/compare/report_arms.html app/eval/report_eval.html app/language/report_language.html
  app/serve/page.html app/serve/page.js app/serve/page.css)
