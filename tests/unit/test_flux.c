/* test_flux.c - what Flux has of its own: its schedule, how dev and schnell differ; and modulations, which
 * SD3 and HunyuanVideo have as well. Golden tests hold the numbers of a render. */
#include "engine_fixture.h"
#include "lora_file.h"
#include "quantised_file.h"
#include "sampler_table.h"
#include "solver.h"

/* ---- schedule ---- */

static sg_sampler_config config_of(int64_t tokens)
{
    return (sg_sampler_config){.solver = &sg_solver_flow_flux,
                               .kind = SG_SAMPLER_EULER,
                               .kinds = 1 << SG_SAMPLER_EULER,
                               .flow_shift = tokens ? 0 : 3,
                               .by_tokens = {.on = tokens != 0, .tokens = {256, 4096}, .mu = {0.5, 1.15}},
                               .tokens = tokens,
                               .train_steps = 1000};
}

static void shift_by_tokens_is_that_of_diffusers(void **state)
{
    static sg_sampler p;
    const double     *t = flux_numbers;
    sg_error          e = {0};
    for (size_t i = 0; i < sizeof flux_tokens / sizeof *flux_tokens; i++)
        for (size_t k = 0; k < sizeof flux_steps / sizeof *flux_steps; k++) {
            const sg_sampler_config c = config_of(flux_tokens[i]);
            const int               steps = flux_steps[k];
            assert_int_equal(sg_sampler_init(&p, &c, steps, &e), SG_OK);
            for (int n = 0; n < steps; n++) {
                assert_true((float)p.sigma[n] == (float)t[n]);
                assert_true((float)p.timestep[n] == (float)t[steps + n]);
            }
            t += 3 * steps;
        }
    assert_ptr_equal(t, flux_numbers + sizeof flux_numbers / sizeof *flux_numbers);
}

/* A shift that a request names takes the place of the one by tokens, which tells itself. */
static void shift_of_a_request(void **state)
{
    static sg_sampler by_tokens, named;
    sg_sampler_config c = config_of(4096);
    sg_error          e = {0};
    assert_int_equal(sg_sampler_init(&by_tokens, &c, 5, &e), SG_OK);
    assert_true(fabs(by_tokens.config.flow_shift - exp(1.15)) < 1e-12);
    c.flow_shift = by_tokens.config.flow_shift;
    c.tokens = 1;
    assert_int_equal(sg_sampler_init(&named, &c, 5, &e), SG_OK);
    assert_memory_equal(by_tokens.sigma, named.sigma, sizeof named.sigma);
    c.flow_shift = 0;
    c.by_tokens.mu[1] = 1e6;
    c.tokens = 1 << 20;
    assert_refused(sg_sampler_init(&named, &c, 5, &e), SG_E_ARG, &e, "shift of inf");
}

/* ---- dev and schnell ---- */

static void dev_and_schnell_differ(void **state)
{
    static const struct {
        const char *dir;
        int         steps, tokens;
        double      guidance, flow_shift;
    } of[] = {{SG_FIXTURES "/flux_dev", 28, 512, 3.5, 0}, {SG_FIXTURES "/flux_schnell", 4, 256, 0, 1}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_engine *g = open_model(of[i].dir, 0);
        sg_request r = {.size = sizeof r};
        sg_engine_defaults(g, &r);
        assert_true(r.width == 1024 && r.height == 1024 && r.frames == 1 && r.cfg_scale == 1);
        assert_int_equal(r.steps, of[i].steps);
        assert_true(r.guidance == of[i].guidance && r.flow_shift == of[i].flow_shift);
        assert_int_equal(g->components->text[1].tokens_max, of[i].tokens);
        sg_engine_close(&g);
    }
}

static void plan_tells_the_shift(void **state)
{
    sg_plan    p = {.size = sizeof p};
    sg_error   e = {0};
    sg_engine *g = open_model(SG_FIXTURES "/flux_dev", 0);
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(g, &r);
    r.prompt = "a cat";
    r.width = r.height = 128; /* 256 tokens, where mu is 0.5 */
    assert_int_equal(sg_engine_plan(g, &r, &p, &e), SG_OK);
    assert_true(fabs(p.flow_shift - exp(0.5)) < 1e-12);
    assert_int_equal(p.tokens, 256 + 512);
    r.flow_shift = 2;
    assert_int_equal(sg_engine_plan(g, &r, &p, &e), SG_OK);
    assert_true(p.flow_shift == 2);
    sg_engine_close(&g);
    g = open_model(SG_FIXTURES "/flux_schnell", 0);
    r.size = sizeof r;
    sg_engine_defaults(g, &r);
    r.prompt = "a cat";
    r.flow_shift = 0;
    request_refused(g, &r, "flow_shift: 0|0.001|1000");
    sg_engine_close(&g);
}

/* ---- modulations ---- */

static const char *const modulated[] = {SG_FIXTURES "/flux_dev", SG_FIXTURES "/sd35_medium",
                                        SG_FIXTURES "/hunyuan_hd16"};
enum { MODULATED = sizeof modulated / sizeof *modulated };

static size_t weights_of(const sg_plan *p, const char *phase)
{
    for (int i = 0; i < p->phases; i++)
        if (strcmp(p->phase[i].name, phase) == 0) return p->phase[i].weights + p->phase[i].mapped;
    fail_msg("there is no phase %s", phase);
    return 0;
}

/* Each weight of the denoiser's file is loaded in one of two phases. The file has a header besides, and SD3's a
 * table. */
static void modulations_have_their_own_weights(void **state)
{
    for (int i = 0; i < MODULATED; i++) {
        sg_plan    p = {.size = sizeof p};
        sg_error   e = {0};
        sg_engine *g = open_model(modulated[i], 0);
        sg_request r = small(g);
        r.frames = 1;
        assert_int_equal(sg_engine_plan(g, &r, &p, &e), SG_OK);
        const size_t all = sg_source_bytes(g->components->denoiser->component->source);
        const size_t before = weights_of(&p, "modulation"), blocks = weights_of(&p, "denoise");
        assert_true(before > all / 4 && blocks > all / 4);
        assert_true(before + blocks <= all && before + blocks > all / 16 * 15);
        sg_engine_close(&g);
    }
}

static sg_engine *open_modulated(int i)
{
    return open_engine(
        &(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = modulated[i], .backend = "cpu"});
}

static void count_times(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    *(int *)context += strcmp(name, "dit.temb") == 0;
}

/* One engine renders after another request what a fresh one does, and computes modulations only where something that
 * they follow from has changed. */
static void modulations_are_those_of_the_request(void **state)
{
    static film fresh, again;
    for (int i = 0; i < MODULATED; i++) {
        sg_report  report = {.size = sizeof report};
        sg_error   e = {0};
        sg_engine *g = open_modulated(i);
        sg_request r = small(g);
        int        times = 0, before = 0;
        r.frames = 1;
        g->tap = count_times;
        g->tap_context = &times;
        for (int k = 0; k < 7; k++) {
            if (k == 1) r.prompt = "a dog";
            if (k == 2) r.steps = 3;
            if (k == 3) r.flow_shift = 5;
            if (k == 4 && r.guidance > 0) r.guidance += 1; /* SD3 has none */
            if (k == 5) r.cfg_scale = 1;
            if (k == 6) r.seed = 8;
            const bool same = k == 6 || (k == 4 && r.guidance <= 0);
            assert_done(render_film(g, &r, &again, &report, &e), &e);
            assert_int_equal(times - before, same ? 0 : report.steps_done * (r.cfg_scale > 1 ? 2 : 1));
            before = times;
            sg_engine *one = open_modulated(i);
            assert_done(render_film(one, &r, &fresh, &report, &e), &e);
            assert_memory_equal(&fresh, &again, sizeof fresh);
            sg_engine_close(&one);
        }
        sg_engine_close(&g);
    }
}

/* What a LoRA adds to weights of modulations and to others is what those of a file with the sums give. */
static void loras_change_modulations(void **state)
{
    static const char *const names[] = {"transformer_blocks.1.norm1.linear.weight", "norm_out.linear.bias",
                                        "transformer_blocks.0.attn.to_q.weight"};
    static const char        file[] = "copy/transformer/diffusion_pytorch_model.safetensors";
    static film              of_file, of_lora, without;
    sg_report                report = {.size = sizeof report};
    sg_error                 e = {0};
    lora_file                lora = {.size = 0}, sums = {.size = 0};
    sg_source               *s = NULL;
    sg_engine_options        o = {.size = sizeof o, .model_dir = "copy", .backend = "cpu"};
    shell("cp -r '%s' copy", modulated[0]);
    assert_int_equal(sg_source_open(&s, file, &e), SG_OK);
    for (size_t i = 0; i < sg_source_count(s); i++) {
        const sg_source_tensor *const t = sg_source_at(s, i);
        const size_t                  n = t->bytes / sizeof(float);
        float *const x = malloc(t->bytes), *const added = malloc(t->bytes);
        assert_true(x && added);
        memcpy(x, t->data, t->bytes);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (strcmp(names[k], t->name) != 0) continue;
            for (size_t j = 0; j < n; j++) x[j] += added[j] = (float)(j % 7) / 16;
            char key[128];
            snprintf(key, sizeof key, "transformer.%.*s%s", (int)(strrchr(t->name, '.') - t->name), t->name,
                     sg_text_ends(t->name, "bias") ? ".diff_b" : ".diff");
            lora_put(&lora, key, "F32", t->rank, t->dim, added, t->bytes);
        }
        lora_put(&sums, t->name, "F32", t->rank, t->dim, x, t->bytes);
        free(added);
        free(x);
    }
    lora_put(&lora, "transformer.nothing.diff", "F32", 1, (int64_t[]){1}, &(float){1}, sizeof(float));
    lora_save(&lora, "lora.safetensors", NULL);
    sg_source_close(&s);
    sg_engine *g = open_engine(&o);
    sg_request r = small(g);
    r.frames = 1;
    assert_done(render_film(g, &r, &without, &report, &e), &e);
    sg_engine_close(&g);
    o.lora[0] = (sg_lora_option){.path = "lora.safetensors", .strength = 1};
    o.loras = 1;
    g = open_engine(&o);
    const sg_lora_info *const info = sg_engine_info(g)->lora[0];
    assert_true(info->keys == 4 && info->tensors == 3 && info->unused == 1);
    assert_done(render_film(g, &r, &of_lora, &report, &e), &e);
    sg_engine_close(&g);
    lora_save(&sums, file, NULL);
    o.loras = 0;
    g = open_engine(&o);
    assert_done(render_film(g, &r, &of_file, &report, &e), &e);
    sg_engine_close(&g);
    assert_memory_equal(&of_file, &of_lora, sizeof of_file);
    assert_memory_not_equal(&of_file, &without, sizeof of_file);
}

/* One that changes nothing but modulations is said to be beside them, too. */
static void a_lora_is_beside_quantised_modulations(void **state)
{
    enum { WIDTH = 64 };
    static const float x[6 * WIDTH];
    lora_file          lora = {.size = 0};
    shell("cp -r " SG_FIXTURES "/sd3_medium f8 && rm f8/transformer/*model*");
    quantised_write(SG_FIXTURES "/sd3_medium/transformer/diffusion_pytorch_model.safetensors.index.json",
                    "f8/transformer/diffusion_pytorch_model.safetensors");
    lora_put(&lora, "transformer.transformer_blocks.0.norm1.linear.lora_A.weight", "F32", 2, (int64_t[]){1, WIDTH}, x,
             WIDTH * sizeof *x);
    lora_put(&lora, "transformer.transformer_blocks.0.norm1.linear.lora_B.weight", "F32", 2, (int64_t[]){6 * WIDTH, 1},
             x, sizeof x);
    lora_save(&lora, "beside.safetensors", NULL);
    for (int merge = 0; merge < 2; merge++) {
        sg_engine *g = open_engine(&(sg_engine_options){.size = sizeof(sg_engine_options),
                                                        .model_dir = "f8",
                                                        .backend = "cpu",
                                                        .lora = {{.path = "beside.safetensors", .strength = 1}},
                                                        .loras = 1,
                                                        .lora_merge = merge});
        assert_true(sg_engine_info(g)->lora[0]->beside == !merge);
        sg_engine_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shift_by_tokens_is_that_of_diffusers),
        cmocka_unit_test(shift_of_a_request),
        cmocka_unit_test(dev_and_schnell_differ),
        cmocka_unit_test(plan_tells_the_shift),
        cmocka_unit_test(modulations_have_their_own_weights),
        cmocka_unit_test(modulations_are_those_of_the_request),
        cmocka_unit_test(loras_change_modulations),
        cmocka_unit_test(a_lora_is_beside_quantised_modulations),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
