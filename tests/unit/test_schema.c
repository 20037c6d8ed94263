/* test_schema.c - the schemas of reports beside the tables: each command with --json has one, and what settings may hold
 * is the option table. UPDATE=1 in the environment writes options.json anew. */
#include "base/json_input.h"
#include "base/text.h"
#include "command_table.h"
#include "json_build.h"
#include "option_table.h"
#include "unit.h"

#include <jansson.h>
#include <string.h>

#define OPTIONS SG_SCHEMAS "/options.json"

static json_t *bounds(const char *type, json_t *lo, json_t *hi)
{
    return json_pack("{s:s, s:o, s:o}", "type", type, "minimum", lo, "maximum", hi);
}

/* What a value of the option is in JSON: report_settings.h. */
static json_t *schema_of(const sg_option *o)
{
    json_t *names = NULL;
    switch (o->kind) {
    case SG_OPTION_FLAG: return json_pack("{s:b}", "const", true);
    case SG_OPTION_INT: return bounds("integer", json_integer((json_int_t)o->lo), json_integer((json_int_t)o->hi));
    case SG_OPTION_INT64: return json_pack("{s:s}", "type", "integer");
    case SG_OPTION_REAL: return bounds("number", json_real(o->lo), json_real(o->hi));
    case SG_OPTION_LIST: return json_pack("{s:s}", "$ref", "common.json#/$defs/loras");
    case SG_OPTION_CHOICE:
        names = json_array();
        for (const char *const *name = sg_option_choices(o); *name; name++) sg_json_append(&names, json_string(*name));
        return json_pack("{s:o}", "enum", names);
    default:
        return o->files ? json_pack("{s:s}", "$ref", "common.json#/$defs/file_or_name")
                        : json_pack("{s:s}", "type", "string");
    }
}

/* Other members of eval's manifest have these names. */
static bool is_of_manifest(const char *name)
{
    static const char *const of_manifest[] = {"prompts", "arms", "clip", NULL};
    return of_manifest[sg_text_place(name, of_manifest)];
}

/* A line for each option that is kept, sorted as the table is. */
static char *options_text(void)
{
    json_t    *seen = json_object();
    sg_textbuf b = {0};
    sg_textbuf_printf(&b, "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
                          "  \"$id\": \"options.json\",\n"
                          "  \"title\": \"Options by their names; written by test_schema.c from the option table\",\n"
                          "  \"properties\": {");
    for (const sg_option *o = sg_option_table; o < sg_option_table + sg_option_count; o++) {
        char key[48], help[1024];
        if (!o->name || !(o->phase & SG_OPTION_KEPT) || o->kind == SG_OPTION_SIZE || is_of_manifest(o->name)) continue;
        snprintf(key, sizeof key, "%s", o->name);
        for (char *p = key; *p; p++)
            if (*p == '-') *p = '_';
        if (json_object_get(seen, key)) continue;
        json_object_set_new(seen, key, json_true());
        snprintf(help, sizeof help, "%s", o->help);
        for (char *p = help; *p; p++)
            if (*p == '\n') *p = ' ';
        json_t *value = schema_of(o);
        sg_json_set(&value, "description", json_string(help));
        char *const text = json_dumps(value, JSON_REAL_PRECISION(15));
        sg_textbuf_printf(&b, "%s\n    \"%s\": %s", json_object_size(seen) > 1 ? "," : "", key, text);
        free(text);
        json_decref(value);
    }
    sg_textbuf_printf(&b, "\n  }\n}\n");
    json_decref(seen);
    assert_false(b.failed);
    return b.data;
}

static void test_options(void **state)
{
    char *const text = options_text();
    if (getenv("UPDATE")) write_text(OPTIONS, text);
    char *const there = read_file(OPTIONS, NULL);
    assert_string_equal(there, text);
    free(there);
    free(text);
}

static void test_commands(void **state)
{
    for (const sg_command_row *row = sg_command_table; row < sg_command_table + sg_command_count; row++) {
        const bool reports = sg_option_find("json", 4, row->command) || row->command == SG_COMMAND_EVAL;
        char       name[32], path[sizeof SG_SCHEMAS + 40];
        snprintf(name, sizeof name, "%s", *row->name ? row->name : "render");
        for (char *p = name; *p; p++)
            if (*p == ' ') *p = '-';
        snprintf(path, sizeof path, SG_SCHEMAS "/%s.json", name);
        assert_int_equal(reports, access(path, R_OK) == 0);
        assert_int_equal(reports, row->version > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
