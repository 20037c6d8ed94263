/* shell_completion.c - see shell_completion.h. Options are completed by command, values from the list of choices, and
 * values that are FILE or DIR from the file system. */
#include "shell_completion.h"
#include "base/text.h"
#include "command_table.h"
#include "option_table.h"

#include <string.h>

static bool is_path(const sg_option *o)
{
    static const char *const files[] = {"FILE", "DIR", "PATH", NULL};
    return o->value && files[sg_text_place(o->value, files)];
}

static void words(FILE *out, const char *before, const char *const *list, const char *after)
{
    fputs(before, out);
    for (; *list; list++) fprintf(out, "%s%s", *list, list[1] ? " " : "");
    fputs(after, out);
}

/* The command of the line, whose words after the program's name these are in the shell. */
static void find_command(FILE *out, const char *first, const char *second)
{
    fprintf(out, "    case %s in\n    bench) command=\"bench %s\" ;;\n    -*) ;;\n    *) command=%s ;;\n    esac\n",
            first, second, first);
}

/* A branch of a shell's case: "compare --attention|compare -a) ... ;;". */
static void bash_value(FILE *out, const char *command, const sg_option *o)
{
    fprintf(out, "    '%s --%s'", command, o->name);
    for (const char *const *a = o->alias; *a; a++) fprintf(out, "|'%s --%s'", command, *a);
    if (o->letter) fprintf(out, "|'%s -%c'", command, o->letter);
    if (sg_option_choices(o))
        words(out, ") _sparge_gen_of \"", sg_option_choices(o), "\"; return ;;\n");
    else
        fprintf(out, ") mapfile -t COMPREPLY < <(compgen -%c -- \"$cur\") ; return ;;\n",
                o->value[0] == 'D' ? 'd' : 'f');
}

void sg_completion_bash(FILE *out)
{
    const sg_option *o;
    fputs("# bash completion of sparge-gen, written by `sparge-gen help bash`\n"
          "_sparge_gen_of() { COMPREPLY=($(compgen -W \"$1\" -- \"$cur\")); }\n"
          "_sparge_gen()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=\n"
          "    if [[ $cur == = ]]; then cur=\n" /* --option=value is three words */
          "    elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n",
          out);
    find_command(out, "${COMP_WORDS[1]}", "${COMP_WORDS[2]}");
    words(out, "    if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then _sparge_gen_of \"", sg_command_words,
          "\"; return ; fi\n");
    fputs("    if ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == bench ]]; then _sparge_gen_of \"step attention cold\" "
          "; return ; fi\n"
          "    case \"$command $prev\" in\n",
          out);
    words(out, "    'help help') _sparge_gen_of \"all man bash zsh ", sg_command_words, "\"; return ;;\n");
    for (int c = 0; c < sg_command_count; c++)
        for (int i = 0; (o = sg_option_next(sg_command_table[c].command, &i)) != NULL;)
            if (sg_option_choices(o) || is_path(o)) bash_value(out, sg_command_table[c].name, o);
    fputs("    esac\n    case $command in\n", out);
    for (int c = 0; c < sg_command_count; c++) {
        fprintf(out, "    '%s') _sparge_gen_of \"", sg_command_table[c].name);
        for (int i = 0; (o = sg_option_next(sg_command_table[c].command, &i)) != NULL;) fprintf(out, " --%s", o->name);
        fputs("\" ;;\n", out);
    }
    fputs("    esac\n"
          "    if [[ $cur != -* && ( $command == info || $command == compare ) ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _sparge_gen sparge-gen\n",
          out);
}

/* A description in zsh's brackets: one line, without brackets and quotes. */
static void zsh_text(FILE *out, const char *help)
{
    for (; *help && *help != '\n'; help++) {
        if (strchr("[]:'\\`\"$", *help)) continue;
        fputc(*help, out);
    }
}

static void zsh_option(FILE *out, const sg_option *o, const char *name)
{
    fprintf(out, "            '%s%s", o->kind == SG_OPTION_LIST ? "*" : "", name);
    if (o->kind != SG_OPTION_FLAG && name[1] == '-') fputc('=', out);
    fputc('[', out);
    zsh_text(out, o->help);
    fputc(']', out);
    if (o->kind != SG_OPTION_FLAG) fprintf(out, ":%s:", o->value);
    if (sg_option_choices(o))
        words(out, "(", sg_option_choices(o), ")");
    else if (is_path(o))
        fputs(o->value[0] == 'D' ? "_files -/" : "_files", out);
    fputs("' \\\n", out);
}

void sg_completion_zsh(FILE *out)
{
    fputs("#compdef sparge-gen\n# zsh completion of sparge-gen, written by `sparge-gen help zsh`\n"
          "_sparge_gen()\n{\n    local command=render\n",
          out);
    find_command(out, "$words[2]", "$words[3]");
    words(out, "    if ((CURRENT == 2)) && [[ $PREFIX != -* ]]; then compadd ", sg_command_words, "; return ; fi\n");
    fputs("    if ((CURRENT == 3)) && [[ $words[2] == bench ]]; then compadd step attention cold; return ; fi\n", out);
    words(out, "    if ((CURRENT == 3)) && [[ $words[2] == help ]]; then compadd all man bash zsh ", sg_command_words,
          "; return ; fi\n    case $command in\n");
    for (int c = 0; c < sg_command_count; c++) {
        const sg_command_row *const row = &sg_command_table[c];
        const sg_option            *o;
        fprintf(out, "    '%s')\n        _arguments -s -S \\\n", *row->name ? row->name : "render");
        for (int i = 0; (o = sg_option_next(row->command, &i)) != NULL;) {
            char name[48];
            snprintf(name, sizeof name, "--%s", o->name);
            zsh_option(out, o, name);
            snprintf(name, sizeof name, "-%c", o->letter);
            if (o->letter) zsh_option(out, o, name);
        }
        fputs("            '*:file:_files' ;;\n", out);
    }
    fputs("    esac\n}\n_sparge_gen \"$@\"\n", out);
}
