/* make_eval_page.c - the report of an evaluation's folder. usage: make_eval_page FOLDER */
#include "eval_report.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    sg_error e = {0};
    if (argc != 2) return 2;
    if (sg_eval_report(argv[1], &e) == SG_OK) return 0;
    fprintf(stderr, "%s\n", e.text);
    return 1;
}
