/* failing_memory.h - every allocation that test_allocation links with --wrap, and libpng's: one of them fails. */
#ifndef SG_FAILING_MEMORY_H
#define SG_FAILING_MEMORY_H

#include <errno.h>
#include <png.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_long calls, failing; /* so far; which one shall fail, 0: none */
static atomic_bool ours_only;      /* those of libraries do not count */
static atomic_bool foreign;        /* it was a library's, which may take it for a broken file */

static bool fails(void)
{
    const long n = atomic_load(&failing);
    if (!n || atomic_fetch_add(&calls, 1) + 1 != n) return false;
    errno = ENOMEM;
    return true;
}

#define WRAP(result, name, parameters, ...)                                                                            \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters { return fails() ? NULL : __real_##name(__VA_ARGS__); }
WRAP(void *, malloc, (size_t n), n)
WRAP(void *, calloc, (size_t n, size_t size), n, size)
WRAP(void *, realloc, (void *p, size_t n), p, n)
WRAP(void *, aligned_alloc, (size_t to, size_t n), to, n)
WRAP(char *, strdup, (const char *s), s)
WRAP(char *, strndup, (const char *s, size_t n), s, n)

void *__real_mmap(void *at, size_t n, int may, int how, int fd, off_t from);
void *__wrap_mmap(void *at, size_t n, int may, int how, int fd, off_t from);
void *__wrap_mmap(void *at, size_t n, int may, int how, int fd, off_t from)
{
    return fails() ? MAP_FAILED : __real_mmap(at, n, may, how, fd, from);
}

typedef void *thread_main(void *);
int           __real_pthread_create(pthread_t *t, const pthread_attr_t *a, thread_main *run, void *context);
int           __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, thread_main *run, void *context);
int           __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, thread_main *run, void *context)
{
    return fails() ? EAGAIN : __real_pthread_create(t, a, run, context);
}

static void *take_foreign(size_t n)
{
    void *const p = atomic_load(&ours_only) ? __real_malloc(n) : malloc(n);
    if (!p) atomic_store(&foreign, true);
    return p;
}

/* Jansson's lexer does not notice where its buffer, of 16 bytes times a power of two, cannot grow, and asserts later that it holds
 * what was read (2.14, load.c, lex_save): blocks of such a size do not fail. */
static void *jansson_take(size_t n) { return n >= 32 && (n & (n - 1)) == 0 ? __real_malloc(n) : take_foreign(n); }

static png_voidp png_take(png_structp p, png_alloc_size_t n)
{
    (void)p;
    return take_foreign(n);
}

static void png_release(png_structp p, png_voidp block)
{
    (void)p;
    free(block);
}

#define WRAP_PNG(what)                                                                                                 \
    png_structp __wrap_png_create_##what##_struct(const char *v, void *c, png_error_ptr e, png_error_ptr w);           \
    png_structp __wrap_png_create_##what##_struct(const char *v, void *c, png_error_ptr e, png_error_ptr w)            \
    {                                                                                                                  \
        return png_create_##what##_struct_2(v, c, e, w, NULL, png_take, png_release);                                  \
    }
WRAP_PNG(read)
WRAP_PNG(write)

#endif
