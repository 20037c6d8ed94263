/* hostile.h - what the parts of this test share: a model's folder is broken in one place, the command is run on it
 * under limits, and how it ended is judged. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stddef.h>

/* The sanitizers take memory and time of their own: no limits then, and less of what is there in masses. */
#if defined(__has_feature)
#define HOSTILE_SANITIZED __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HOSTILE_SANITIZED 1
#else
#define HOSTILE_SANITIZED 0
#endif

typedef struct hostile_case hostile_case;

/* Makes the broken file `to`, which is not there yet; `from` is the sound one, which may not exist. */
typedef void hostile_make(const char *from, const char *to, const hostile_case *c);

struct hostile_case {
    const char   *name;
    hostile_make *make; /* NULL: nothing is broken */
    const char   *file; /* in the model's folder */
    const char   *key;  /* these two as make wants them */
    const char   *value;
    int           exit;
    const char   *words; /* all that the message must hold, parted by | */
    const char   *args;  /* parted by blanks; NULL: the usual small render. The model is always given */
};

/* ---- ways to break a file ---- */
hostile_make hostile_put;    /* value is all it holds */
hostile_make hostile_set;    /* a JSON object: key gets the raw value, NULL removes it */
hostile_make hostile_swap;   /* the first text key becomes value */
hostile_make hostile_add;    /* value follows the sound content */
hostile_make hostile_cut;    /* the first value bytes; from the end when negative */
hostile_make hostile_size;   /* value bytes, a hole of zeros behind what is there */
hostile_make hostile_gone;   /* no such file */
hostile_make hostile_folder; /* a folder in its place */
hostile_make hostile_fifo;   /* a pipe that nobody writes */
hostile_make hostile_link;   /* a symbolic link to value */
hostile_make hostile_shut;   /* nobody may read it */
hostile_make
    hostile_other; /* that of another sound model: value is its place among the fixtures; a folder of the model's */
hostile_make hostile_pieces; /* a tokenizer of no other file than the first value bytes of its model */
hostile_make hostile_length; /* safetensors: the header's length is key, then value follows */
hostile_make hostile_entry;  /* safetensors: what describes tensor key becomes the raw value, NULL removes it */
hostile_make hostile_poke;   /* safetensors: the first element of tensor key becomes value, nan or inf */
hostile_make hostile_poison; /* safetensors: every element becomes NaN */
hostile_make hostile_shift;  /* safetensors: the data begin at an odd byte */
hostile_make hostile_repeat; /* key, then value so many times that it is as large as the next number tells */
hostile_make hostile_many;   /* safetensors with value tensors of a byte each; a tenth of them where sanitized */
hostile_make hostile_index;  /* an index of value tensors, each in a shard of its own */

/* ---- running ---- */
typedef struct hostile_end {
    int    exit, signal;
    double seconds;
    size_t peak;       /* bytes held in memory at most */
    char   text[8192]; /* stdout and stderr */
} hostile_end;

/* Runs args[0] in folder `in`, its memory and time limited. */
void hostile_run(hostile_end *end, char *const *args, const char *in);

/* Why a failure was not told as it should be: one message, of sound text, with all the words; NULL when it was. */
const char *hostile_judge(const hostile_end *end, const char *words);

/* Puts a text together; never freed. */
const char    *hostile_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void hostile_die(const char *what);

#endif
