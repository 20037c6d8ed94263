/* test_rank.c - which of several processes this one is: by launchers' variables, by hand. */
#include "backend.h"
#include "rank.h"
#include "setup.h"
#include "unit.h"

static const char *const known[] = {"OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "MV2_COMM_WORLD_RANK",
                                    "MV2_COMM_WORLD_SIZE",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "MPI_LOCALRANKID",
                                    "MPI_LOCALNRANKS",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_LOCALID",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_ID"};

/* Leaves these alone: "NAME=VALUE NAME=VALUE". */
static void set_environment(const char *list)
{
    char text[512], *rest = text;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) unsetenv(known[i]);
    assert_true(strlen(list) < sizeof text);
    strcpy(text, list);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *const equals = strchr(word, '=');
        if (!equals) continue;
        *equals = '\0';
        setenv(word, equals + 1, 1);
    }
}

static void expect(const char *environment, const char *shard, int rank, int size, const char *from)
{
    sg_rank  r;
    sg_error e = {0};
    set_environment(environment);
    if (sg_rank_find(&r, shard, &e) != SG_OK) fail_msg("%s: %s", environment, e.text);
    assert_int_equal(r.rank, rank);
    assert_int_equal(r.size, size);
    if (from)
        assert_string_equal(r.from, from);
    else
        assert_null(r.from);
}

static void expect_refused(const char *environment, const char *shard, const char *reason)
{
    sg_rank  r;
    sg_error e = {0};
    set_environment(environment);
    assert_refused(sg_rank_find(&r, shard, &e), SG_E_ARG, &e, reason);
}

static void launchers_tell(void **state)
{
    expect("", NULL, 0, 1, NULL);
    expect("SLURM_PROCID=3 SLURM_NTASKS=8", NULL, 3, 8, "SLURM_PROCID");
    expect("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", NULL, 1, 2, "OMPI_COMM_WORLD_RANK");
    expect("PMI_RANK=0 PMI_SIZE=4", NULL, 0, 4, "PMI_RANK");
    expect("MV2_COMM_WORLD_RANK=5 MV2_COMM_WORLD_SIZE=6", NULL, 5, 6, "MV2_COMM_WORLD_RANK");
    expect("PMI_RANK= PMI_SIZE=", NULL, 0, 1, NULL);
}

static void slurm_is_asked_with_care(void **state)
{
    /* two tasks within an allocation of eight */
    expect("SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=2", NULL, 1, 2,
           "SLURM_PROCID");
    /* the batch script itself, a shell of salloc */
    expect("SLURM_JOB_ID=9 SLURM_PROCID=0 SLURM_NTASKS=8", NULL, 0, 1, NULL);
    expect("SLURM_JOB_ID=9 SLURM_NTASKS=8", NULL, 0, 1, NULL);
    expect("SLURM_JOB_ID=9 SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_NTASKS=8", NULL, 0, 1, NULL);
    /* mpirun from that script; both by srun */
    expect("SLURM_JOB_ID=9 SLURM_PROCID=0 SLURM_NTASKS=8 OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8", NULL, 5, 8,
           "OMPI_COMM_WORLD_RANK");
    expect("SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 PMI_RANK=1 PMI_SIZE=2", NULL, 1, 2,
           "PMI_RANK");
}

static void the_host_is_told(void **state)
{
    sg_rank r;
    expect("PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4", NULL, 5, 8, "PMI_RANK");
    assert_int_equal(sg_rank_find(&r, NULL, NULL), SG_OK);
    assert_int_equal(r.local_rank, 1);
    assert_int_equal(r.local_size, 4);
    expect("SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=2", NULL, 5, 8, "SLURM_PROCID");
    assert_int_equal(sg_rank_find(&r, NULL, NULL), SG_OK);
    assert_int_equal(r.local_rank, 2);
    assert_int_equal(r.local_size, 0);
    /* srun --mpi=pmi2; and an mpirun that does not tell, in a step of Slurm */
    expect("SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=1 PMI_RANK=5 PMI_SIZE=8", NULL, 5, 8, "PMI_RANK");
    assert_int_equal(sg_rank_find(&r, NULL, NULL), SG_OK);
    assert_int_equal(r.local_rank, 1);
    expect("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=1 PMI_RANK=5 PMI_SIZE=8", NULL, 5, 8, "PMI_RANK");
    assert_int_equal(sg_rank_find(&r, NULL, NULL), SG_OK);
    assert_int_equal(r.local_rank, 0);
    expect_refused("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=4", NULL, "MPI_LOCALRANKID");
    expect_refused("PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=2", NULL, "MPI_LOCALNRANKS");
}

static void nonsense_is_refused(void **state)
{
    expect_refused("SLURM_PROCID=1", NULL, "SLURM_PROCID is set|SLURM_NTASKS");
    expect_refused("OMPI_COMM_WORLD_SIZE=2", NULL, "OMPI_COMM_WORLD_SIZE is set|OMPI_COMM_WORLD_RANK");
    expect_refused("PMI_RANK=2 PMI_SIZE=2", NULL, "PMI_RANK|0 to 1|'2'");
    expect_refused("PMI_RANK=-1 PMI_SIZE=2", NULL, "is '-1'");
    expect_refused("PMI_RANK=0 PMI_SIZE=0", NULL, "PMI_SIZE should be");
    expect_refused("PMI_RANK=0 PMI_SIZE=99999999999999999999", NULL, "PMI_SIZE should be");
    expect_refused("PMI_RANK=1x PMI_SIZE=2", NULL, "is '1x'");
}

static void shards_are_read(void **state)
{
    expect("", "1/1", 0, 1, "--shard");
    expect("", "2/8", 1, 8, "--shard");
    expect("", "8/8", 7, 8, "--shard");
    expect("PMI_RANK=0 PMI_SIZE=1", "2/8", 1, 8, "--shard");
    static const char *const bad[] = {"",     "1",     "/",    "1/",   "/2",  "0/2", "3/2",
                                      "-1/2", "1/2/3", "1/2 ", " 1/2", "a/b", "1/0", "1/9999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_refused("", bad[i], "--shard: '");
    expect_refused("PMI_RANK=1 PMI_SIZE=2", "1/2", "PMI_RANK|one of 2");
}

static void each_entry_has_one_rank(void **state)
{
    for (int size = 1; size < 9; size++)
        for (int64_t entry = 0; entry < 100; entry++) {
            int takers = 0;
            for (int rank = 0; rank < size; rank++) takers += sg_rank_takes(&(sg_rank){rank, size, 0, 0, NULL}, entry);
            assert_int_equal(takers, 1);
        }
    assert_true(sg_rank_takes(&(sg_rank){2, 3, 0, 0, NULL}, 5));
}

/* Which GPU a process takes: the one that was asked for, else those of its host in turn. */
static void ranks_take_gpus_in_turn(void **state)
{
    static const int want[][4] = {{0, 0, 1, 0}, {0, 1, 1, 0}, {0, 1, 2, 1}, {0, 2, 2, 0}, {0, 5, 4, 1}, {3, 0, 4, 3}};
    sg_error         e = {0};
    int              device = -1;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const sg_backend_options o = {.device = want[i][0], .local_rank = want[i][1]};
        assert_int_equal(sg_backend_choose_gpu(&device, &o, want[i][2], &e), SG_OK);
        assert_int_equal(device, want[i][3]);
    }
    assert_refused(sg_backend_choose_gpu(&device, &(sg_backend_options){.device = 2}, 2, &e), SG_E_ARG, &e,
                   "device|GPU 2|0 to 1");
    assert_refused(sg_backend_choose_gpu(&device, &(sg_backend_options){.device = -1}, 2, &e), SG_E_ARG, &e, "GPU -1");
    assert_refused(sg_backend_choose_gpu(&device, &(sg_backend_options){.device = 1}, 1, &e), SG_E_ARG, &e,
                   "device|GPU 1|number 0");
    for (int i = 0; i < 4; i++) {
        const sg_backend_options o = {
            .name = i % 2 ? "ref" : "cpu", .device = i / 2 ? -1 : 1, .threads = 1, .local_rank = 3};
        sg_backend *b = NULL;
        e = (sg_error){0};
        assert_refused(sg_backend_open(&b, &o, &e), SG_E_ARG, &e,
                       i / 2   ? "device is -1"
                       : i % 2 ? "ref|GPU 1"
                               : "cpu|GPU 1");
    }
}

static sg_engine_options options(const char *device, const char *backend)
{
    sg_settings       s = sg_options_empty(SG_COMMAND_RENDER);
    sg_engine_options o = {.size = sizeof(sg_engine_options)};
    sg_error          e = {0};
    if (device) assert_int_equal(sg_options_set(&s, "device", device, &e), SG_OK);
    if (backend) assert_int_equal(sg_options_set(&s, "backend", backend, &e), SG_OK);
    if (sg_setup_options(&o, NULL, &s, &e)) fail_msg("%s", e.text);
    return o;
}

static void commands_ask_the_launcher(void **state)
{
    const struct {
        const char *device, *backend;
        int         number, local_rank;
        const char *name;
    } want[] = {{NULL, NULL, 0, 1, "auto"}, {NULL, "cuda", 0, 1, "cuda"}, {NULL, "cpu", 0, 0, "cpu"},
                {"0", NULL, 0, 0, "cuda"},  {"3", "auto", 3, 0, "cuda"},  {"2", "cuda", 2, 0, "cuda"}};
    set_environment("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const sg_engine_options o = options(want[i].device, want[i].backend);
        assert_int_equal(o.device, want[i].number);
        assert_int_equal(o.local_rank, want[i].local_rank);
        assert_string_equal(o.backend, want[i].name);
    }
    sg_settings       s = sg_options_empty(SG_COMMAND_RENDER);
    sg_engine_options o;
    sg_error          e = {0};
    set_environment("OMPI_COMM_WORLD_RANK=5");
    assert_int_equal(sg_setup_options(&o, NULL, &s, &e), SG_E_ARG);
    set_environment("");
    assert_int_equal(options(NULL, NULL).local_rank, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_tell),          cmocka_unit_test(slurm_is_asked_with_care),
        cmocka_unit_test(the_host_is_told),        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(shards_are_read),         cmocka_unit_test(each_entry_has_one_rank),
        cmocka_unit_test(ranks_take_gpus_in_turn), cmocka_unit_test(commands_ask_the_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
