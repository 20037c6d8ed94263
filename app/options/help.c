/* help.c - see help.h. */
#include "help.h"
#include "base/text.h"
#include "command_table.h"
#include "option_table.h"
#include "shell_completion.h"

#include <ctype.h>
#include <string.h>

enum { USAGE_COLUMN = 51, OPTION_COLUMN = 30 };

/* "-m, --model DIR". Returns its length. */
static int synopsis(char *out, size_t size, const sg_option *o)
{
    const char *const *const choices = sg_option_choices(o);
    char                     letter[] = "-x, ";
    letter[1] = o->letter;
    snprintf(out, size, "%s--%s", o->letter ? letter : "    ", o->name);
    for (const char *const *c = choices; c && *c; c++)
        sg_text_append(out, size, "%s%s%s", c == choices ? " {" : ",", *c, c[1] ? "" : "}");
    if (!choices && o->value) sg_text_append(out, size, " %s", o->value);
    return (int)strlen(out);
}

enum { DESCRIPTION = 2048, COMMANDS = 160 };

/* The commands that have o, or "" where all have it. Returns text. */
static const char *commands_of(char text[COMMANDS], const sg_option *o)
{
    int have = 0;
    *text = '\0';
    for (int i = 0; i < sg_command_count; i++) {
        const sg_command_row *const row = &sg_command_table[i];
        if (!(o->commands & row->command)) continue;
        sg_text_append(text, COMMANDS, "%s%s", have++ ? ", " : "", *row->name ? row->name : "render");
    }
    if (have == sg_command_count) *text = '\0';
    return text;
}

/* What o does, and "(also --num-frames, --video-frames)". Returns text. */
static const char *description(char text[DESCRIPTION], const sg_option *o, bool with_aliases)
{
    snprintf(text, DESCRIPTION, "%s", o->help);
    if (o->more) sg_text_append(text, DESCRIPTION, "\n%s", o->more((char[1024]){0}, 1024));
    for (const char *const *a = o->alias; with_aliases && *a; a++)
        sg_text_append(text, DESCRIPTION, "%s--%s%s", a == o->alias ? "\n(also " : ", ", *a, a[1] ? "" : ")");
    return text;
}

static void help_option(FILE *out, const sg_option *o, bool with_aliases)
{
    char        left[160], text[DESCRIPTION];
    int         n = synopsis(left, sizeof left, o) + 2;
    const char *line = description(text, o, with_aliases);
    fprintf(out, "  %s", left);
    if (n > OPTION_COLUMN - 2) fputc('\n', out), n = 0;
    for (; line; n = 0) {
        const size_t length = strcspn(line, "\n");
        fprintf(out, "%*s%.*s\n", OPTION_COLUMN - n, "", (int)length, line);
        line = line[length] ? line + length + 1 : NULL;
    }
}

static void help_usages(FILE *out, const sg_command_row *row)
{
    for (int k = 0; k < SG_USAGES_MAX && row->usage[k]; k++) {
        const int n = fprintf(out, "  sparge-gen %s", row->usage[k]);
        fprintf(out, "%*s%s\n", n < USAGE_COLUMN - 1 ? USAGE_COLUMN - n : 2, "", row->effect[k]);
    }
}

static void help_options(FILE *out, sg_command c)
{
    for (int i = 0; i < sg_option_count; i++) {
        const sg_option *const o = &sg_option_table[i];
        if (!(o->commands & c)) continue;
        if (o->kind == SG_OPTION_HEADING)
            fprintf(out, "\n%s:\n", o->help);
        else
            help_option(out, o, true);
    }
}

static void help_render(FILE *out, bool all)
{
    fputs("sparge-gen turns a prompt into a video or an image.\n\n", out);
    for (int i = 0; i < sg_command_count; i++) help_usages(out, &sg_command_table[i]);
    if (all) {
        fputs("\n`sparge-gen help COMMAND` lists the options of a command. A default that is not given here is the "
              "model's:\n"
              "`sparge-gen info DIR` shows it. In names of options an underscore is read as a hyphen.\n",
              out);
        help_options(out, SG_COMMAND_RENDER);
        return;
    }
    fputs("\nOptions of a render that are used most:\n", out);
    for (int i = 0; i < sg_option_count; i++)
        if (sg_option_table[i].usual) help_option(out, &sg_option_table[i], false);
    fputs("\nExamples:\n", out);
    for (int k = 0; k < 2; k++) fprintf(out, "  %s\n", sg_command_row_of(SG_COMMAND_RENDER)->example[k]);
    fprintf(out, "  %s\n", sg_command_row_of(SG_COMMAND_COMPARE)->example[0]);
    fputs("\n`sparge-gen help all` lists every option, `help COMMAND` those of a command, `help WORD` those on a word: "
          "size.\n",
          out);
}

static void help_command(FILE *out, sg_command c)
{
    for (int i = 0; i < sg_command_count; i++) {
        const sg_command_row *const row = &sg_command_table[i];
        if (!(row->command & c)) continue;
        help_usages(out, row);
        if (row->text) fprintf(out, "\n%s\n", row->text);
        if (row->example[0]) fputs("\nExample:\n", out);
        for (int k = 0; k < 2 && row->example[k]; k++) fprintf(out, "  %s\n", row->example[k]);
        if (c == SG_COMMAND_BENCH) fputc('\n', out);
    }
    if (c != SG_COMMAND_BENCH) help_options(out, c);
}

/* ---- a word ---- */

/* Whether the word stands in the text, in any case. */
static bool mentions(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = text; n && at && (at = strcasestr(at, word)) != NULL; at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n])) return true;
    return false;
}

static bool word_commands(FILE *out, const char *word)
{
    bool found = false;
    for (int i = 0; i < sg_command_count; i++) {
        const sg_command_row *const row = &sg_command_table[i];
        if (!mentions(row->effect[0], word) && !(row->effect[1] && mentions(row->effect[1], word))) continue;
        if (out && !found) fputs("Commands:\n", out);
        if (out) help_usages(out, row);
        found = true;
    }
    if (out && found) fputc('\n', out);
    return found;
}

/* The options of a render that stand under such a heading. */
static bool word_section(FILE *out, const char *word)
{
    bool within = false, found = false;
    for (int i = 0; i < sg_option_count; i++) {
        const sg_option *const o = &sg_option_table[i];
        if (o->kind == SG_OPTION_HEADING) within = mentions(o->help, word) && (o->commands & SG_COMMAND_RENDER);
        if (!within || !(o->commands & SG_COMMAND_RENDER)) continue;
        if (out && o->kind == SG_OPTION_HEADING)
            fprintf(out, "%s, options of a render:\n", o->help);
        else if (out)
            help_option(out, o, true);
        found = true;
    }
    return found;
}

static bool word_options(FILE *out, const char *word)
{
    bool found = false;
    for (int c = 0; c < sg_command_count; c++) {
        const sg_option *const o = sg_option_find(word, strlen(word), sg_command_table[c].command);
        bool                   first = o;
        for (int k = 0; k < c; k++) first = first && !(o->commands & sg_command_table[k].command);
        if (out && first) {
            const char *const of = commands_of((char[COMMANDS]){0}, o);
            fprintf(out, "Of %s:\n", *of ? of : "all commands");
            help_option(out, o, true);
        }
        found = found || o;
    }
    return found;
}

bool sg_help_word(FILE *out, const char *word)
{
    const bool commands = word_commands(out, word);
    const bool options = word_section(out, word) || word_options(out, word);
    if (out) fputs("\n`sparge-gen help COMMAND` lists the options of a command.\n", out);
    return commands || options;
}

/* ---- the manual page ---- */

/* Text as roff: hyphens that are typed, backslashes, and no line that begins with a control character. */
static void roff(FILE *out, const char *text)
{
    bool start = true;
    for (const char *p = text; *p; p++) {
        if (start && *p == '\n') fputs(".IP", out); /* an empty line begins a paragraph */
        if (start && (*p == '.' || *p == '\'')) fputs("\\&", out);
        if (*p == '-')
            fputs("\\-", out);
        else if (*p == '\\')
            fputs("\\e", out);
        else
            fputc(*p, out);
        start = *p == '\n';
    }
}

static void roff_line(FILE *out, const char *request, const char *text)
{
    fputs(request, out);
    roff(out, text);
    fputc('\n', out);
}

static void roff_command(FILE *out, const sg_command_row *row)
{
    for (int k = 0; k < SG_USAGES_MAX && row->usage[k]; k++) {
        roff_line(out, ".TP\n.B sparge\\-gen ", row->usage[k]);
        roff_line(out, "", row->effect[k]);
    }
    if (row->text) roff_line(out, ".IP\n", row->text);
}

/* With the commands that have it, unless all have. */
static void roff_option(FILE *out, const sg_option *o)
{
    char line[160], text[DESCRIPTION];
    synopsis(line, sizeof line, o);
    roff_line(out, ".TP\n.B ", line + strspn(line, " "));
    roff_line(out, "", description(text, o, true));
    const char *const commands = commands_of((char[COMMANDS]){0}, o);
    if (*commands) fprintf(out, ".br\nOf %s.\n", commands);
}

static void manual(FILE *out)
{
    fputs(".TH SPARGE\\-GEN 1 \"\" \"sparge\\-gen " SG_VERSION "\" \"User Commands\"\n.SH NAME\n"
          "sparge\\-gen \\- turn a prompt into a video, with sparse attention\n.SH SYNOPSIS\n",
          out);
    for (int i = 0; i < sg_command_count; i++)
        for (int k = 0; k < SG_USAGES_MAX && sg_command_table[i].usage[k]; k++) {
            fputs(i + k ? ".br\n" : "", out);
            roff_line(out, ".B sparge\\-gen\n", sg_command_table[i].usage[k]);
        }
    fputs(
        ".SH DESCRIPTION\n"
        "sparge\\-gen reads a text\\-to\\-video checkpoint, a folder or single files, runs text encoder, diffusion "
        "transformer and\n"
        "VAE decoder, and writes a clip. Its self\\-attention skips the blocks that matter little (SpargeAttn).\n"
        "A default that is not given here is the model's: \\fBsparge\\-gen info\\fR shows it. In names of options an\n"
        "underscore is read as a hyphen.\n.SH COMMANDS\n",
        out);
    for (int i = 0; i < sg_command_count; i++) roff_command(out, &sg_command_table[i]);
    fputs(".SH OPTIONS\n", out);
    for (int i = 0; i < sg_option_count; i++) {
        const sg_option *const o = &sg_option_table[i];
        if (o->kind == SG_OPTION_HEADING)
            fprintf(out, ".SS %s\n", o->help);
        else
            roff_option(out, o);
    }
    fputs(".SH EXAMPLES\n", out);
    for (int i = 0; i < sg_command_count; i++)
        for (int k = 0; k < 2 && sg_command_table[i].example[k]; k++) {
            roff_line(out, ".PP\n.nf\n", sg_command_table[i].example[k]);
            fputs(".fi\n", out);
        }
    fputs(
        ".SH DIAGNOSTICS\nMessages go to stderr. Warnings are said again at the end if the first was said a minute or\n"
        "24 lines before. A report on stdout takes the place of the names that \\-\\-quiet prints.\n"
        ".SH ENVIRONMENT\n"
        ".TP\n.B SPARGE_GEN_MODEL\nThe model's folder where \\-\\-model is not given.\n"
        ".TP\n.B SPARGE_GEN_CPUMASK\nThe level that \\-\\-cpumask names, where that is not given.\n"
        ".TP\n.B NO_COLOR\nNo colour on a terminal.\n"
        ".SH FILES\n"
          ".TP\n.I share/sparge-gen/schema/COMMAND.json\n"
          "JSON Schema of a command's reports: of \\-\\-json, and of what compare and eval write.\n"
          ".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage, 130 interrupted.\n",
        out);
}

void sg_help(FILE *out, sg_command c, const char *topic)
{
    if (topic && strcmp(topic, "man") == 0)
        manual(out);
    else if (topic && strcmp(topic, "bash") == 0)
        sg_completion_bash(out);
    else if (topic && strcmp(topic, "zsh") == 0)
        sg_completion_zsh(out);
    else if (topic && strcmp(topic, "all") != 0)
        (void)sg_help_word(out, topic);
    else if (c == SG_COMMAND_RENDER)
        help_render(out, topic != NULL);
    else
        help_command(out, c);
}
