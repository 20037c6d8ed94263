/* shell_completion.c - see shell_completion.h. Options are completed by command, values from the list of choices, and
 * values that are FILE or DIR from the file system. */
#include "shell_completion.h"
#include "command_table.h"
#include "option_table.h"

#include <string.h>

static bool is_path(const sg_option *o)
{
    static const char *const files[] = {"FILE", "DIR", "PATH"};
    for (size_t i = 0; o->value && i < sizeof files / sizeof *files; i++)
        if (strcmp(o->value, files[i]) == 0) return true;
    return false;
}

static void words(FILE *out, const char *const *list)
{
    for (; *list; list++) fprintf(out, "%s%s", *list, list[1] ? " " : "");
}

/* A pattern of a shell's case: "compare --attention|compare -a". */
static void bash_pattern(FILE *out, const char *command, const sg_option *o)
{
    fprintf(out, "'%s --%s'", command, o->name);
    for (int k = 0; k < 3 && o->alias[k]; k++) fprintf(out, "|'%s --%s'", command, o->alias[k]);
    if (o->letter) fprintf(out, "|'%s -%c'", command, o->letter);
}

void sg_completion_bash(FILE *out)
{
    fputs("# bash completion of sparge-gen, written by `sparge-gen help bash`\n"
          "_sparge_gen()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=\n"
          "    if [[ $cur == = ]]; then cur=\n" /* --option=value is three words */
          "    elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]} in\n"
          "    bench) command=\"bench ${COMP_WORDS[2]}\" ;;\n"
          "    ",
          out);
    for (int i = 0; sg_command_words[i]; i++)
        if (strcmp(sg_command_words[i], "bench") != 0)
            fprintf(out, "%s%s", sg_command_words[i], sg_command_words[i + 1] ? "|" : "");
    fputs(") command=${COMP_WORDS[1]} ;;\n"
          "    esac\n"
          "    if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"",
          out);
    words(out, sg_command_words);
    fputs("\" -- \"$cur\"))\n        return\n    fi\n"
          "    if ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == bench ]]; then\n"
          "        COMPREPLY=($(compgen -W \"step attention cold\" -- \"$cur\"))\n        return\n    fi\n"
          "    case \"$command $prev\" in\n"
          "    'help help')\n        COMPREPLY=($(compgen -W \"all man bash zsh ",
          out);
    words(out, sg_command_words);
    fputs("\" -- \"$cur\"))\n        return ;;\n", out);
    for (int c = 0; c < sg_command_count; c++)
        for (int i = 0; i < sg_option_count; i++) {
            const sg_option *const o = &sg_option_table[i];
            if (!(o->commands & sg_command_table[c].command) || !(o->choices || is_path(o))) continue;
            fputs("    ", out);
            bash_pattern(out, sg_command_table[c].name, o);
            if (o->choices) {
                fputs(")\n        COMPREPLY=($(compgen -W \"", out);
                words(out, o->choices);
                fputs("\" -- \"$cur\"))\n        return ;;\n", out);
            } else {
                fprintf(out, ")\n        mapfile -t COMPREPLY < <(compgen -%c -- \"$cur\")\n        return ;;\n",
                        o->value[0] == 'D' ? 'd' : 'f');
            }
        }
    fputs("    esac\n    case $command in\n", out);
    for (int c = 0; c < sg_command_count; c++) {
        fprintf(out, "    '%s') COMPREPLY=($(compgen -W \"", sg_command_table[c].name);
        for (int i = 0; i < sg_option_count; i++)
            if (sg_option_table[i].kind != SG_OPTION_HEADING && (sg_option_table[i].commands & sg_command_table[c].command))
                fprintf(out, " --%s", sg_option_table[i].name);
        fputs("\" -- \"$cur\")) ;;\n", out);
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
    if (o->choices) {
        fputc('(', out);
        words(out, o->choices);
        fputc(')', out);
    } else if (is_path(o)) {
        fputs(o->value[0] == 'D' ? "_files -/" : "_files", out);
    }
    fputs("' \\\n", out);
}

void sg_completion_zsh(FILE *out)
{
    fputs("#compdef sparge-gen\n# zsh completion of sparge-gen, written by `sparge-gen help zsh`\n"
          "_sparge_gen()\n{\n"
          "    local command=render\n"
          "    case $words[2] in\n    bench) command=\"bench $words[3]\" ;;\n    ",
          out);
    for (int i = 0; sg_command_words[i]; i++)
        if (strcmp(sg_command_words[i], "bench") != 0)
            fprintf(out, "%s%s", sg_command_words[i], sg_command_words[i + 1] ? "|" : "");
    fputs(") command=$words[2] ;;\n    esac\n"
          "    if ((CURRENT == 2)) && [[ $PREFIX != -* ]]; then\n        compadd ",
          out);
    words(out, sg_command_words);
    fputs("\n        return\n    fi\n"
          "    if ((CURRENT == 3)) && [[ $words[2] == bench ]]; then\n        compadd step attention cold\n        return\n    fi\n"
          "    if ((CURRENT == 3)) && [[ $words[2] == help ]]; then\n        compadd all man bash zsh ",
          out);
    words(out, sg_command_words);
    fputs("\n        return\n    fi\n    case $command in\n", out);
    for (int c = 0; c < sg_command_count; c++) {
        const sg_command_row *const row = &sg_command_table[c];
        fprintf(out, "    '%s')\n        _arguments -s -S \\\n", *row->name ? row->name : "render");
        for (int i = 0; i < sg_option_count; i++) {
            const sg_option *const o = &sg_option_table[i];
            char                   name[48];
            if (o->kind == SG_OPTION_HEADING || !(o->commands & row->command)) continue;
            snprintf(name, sizeof name, "--%s", o->name);
            zsh_option(out, o, name);
            if (!o->letter) continue;
            snprintf(name, sizeof name, "-%c", o->letter);
            zsh_option(out, o, name);
        }
        fputs("            '*:file:_files' ;;\n", out);
    }
    fputs("    esac\n}\n_sparge_gen \"$@\"\n", out);
}
