/* image_stb.c - BMP, GIF and TGA by stb_image, and PNM, see image_decoders.h. stb_image takes what a file lacks for zeros,
 * or for what its memory held before. Here it only sees files that were looked through: they have an allowed size, all
 * pixels are there, and indices lie in their palettes. Its PNM is not used: release 2.27 reads past one of 16 bits, and
 * 2.30 does not link without the decoder of PNG. */
#include "image_decoders.h"

#include <stdlib.h>
#include <string.h>

#if SG_STB_IMAGE
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_BMP
#define STBI_ONLY_GIF
#define STBI_ONLY_TGA
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS SG_IMAGE_MAX_SIDE
#include <stb_image.h>
#endif

static const char ENDS[] = "the file ends within the picture";

typedef struct input {
    const uint8_t *data;
    size_t         size, width, height;
    size_t         pixels;        /* where they begin; of a GIF its first picture */
    size_t         row, last_row; /* bytes of a row, and of the last; 0: of any number */
    size_t         most;          /* value of a sample of a PNM */
    bool           opaque;        /* what lies where alpha does is none */
} input;

static uint32_t le(const input *f, size_t at, int bytes) { return sg_image_number(f->data + at, bytes, false); }

/* ---- BMP ---- */

enum { BMP_FILE_HEADER = 14, BMP_HEADER = 54 };

static bool is_bmp(const input *f) { return f->size >= 2 && memcmp(f->data, "BM", 2) == 0; }

static const char *open_bmp(input *f)
{
    if (f->size < BMP_HEADER) return ENDS;
    const size_t  header = le(f, 14, 4), bits = le(f, 28, 2), packing = le(f, 30, 4);
    const int64_t height = (int32_t)le(f, 22, 4);
    const size_t  masks = packing == 3 && header == 40 ? 12 : 0, palette = bits < 16 ? 4 : 0;
    if (header != 40 && header != 108 && header != 124) return "a BMP with a header of another version is not read";
    if (packing != 0 && packing != 3) return "a compressed BMP is not read";
    f->width = le(f, 18, 4);
    f->height = (size_t)(height < 0 ? -height : height); /* negative: the first row comes first */
    f->pixels = le(f, 10, 4);
    const size_t behind = BMP_FILE_HEADER + header + masks;
    if (f->pixels < behind + palette || f->pixels > behind + 256 * palette)
        return "damaged BMP: its pixels are not where they should be";
    f->row = (f->width * bits + 31) / 32 * 4;
    f->last_row = (f->width * bits + 7) / 8;
    return NULL;
}

/* A pixel of less than 16 bits is an index. */
static const char *check_bmp(input *f)
{
    const unsigned bits = le(f, 28, 2), colours = ((unsigned)f->pixels - BMP_FILE_HEADER - le(f, 14, 4)) / 4;
    if (bits != 1 && bits != 4 && bits != 8) return NULL;
    for (size_t y = 0; y < f->height; y++)
        for (size_t x = 0; x < f->width; x++) {
            const uint8_t byte = f->data[f->pixels + y * f->row + x * bits / 8];
            if ((byte >> (8 - bits - x * bits % 8) & ((1u << bits) - 1)) >= colours)
                return "damaged BMP: a pixel has a colour that is not in the palette";
        }
    return NULL;
}

/* ---- GIF ---- */

enum { GIF_HEADER = 13 };

static bool is_gif(const input *f)
{
    return f->size >= 6 && (memcmp(f->data, "GIF87a", 6) == 0 || memcmp(f->data, "GIF89a", 6) == 0);
}

static const char *open_gif(input *f)
{
    if (f->size < GIF_HEADER) return ENDS;
    f->width = le(f, 6, 2);
    f->height = le(f, 8, 2);
    return NULL;
}

static size_t gif_table(uint8_t flags) { return flags & 0x80 ? (size_t)6 << (flags & 7) : 0; }

/* Moves *at behind blocks of data and the empty one that ends them. *bytes is what they hold. False: the file ends. */
static bool skip_blocks(const input *f, size_t *at, size_t *bytes)
{
    *bytes = 0;
    while (*at < f->size && f->data[*at]) {
        *bytes += f->data[*at];
        *at += 1 + (size_t)f->data[*at];
    }
    return (*at)++ < f->size;
}

/* stb_image reads on until the blocks end, however many pixels they have. */
static const char *check_gif(input *f)
{
    enum { EXTENSION = 0x21, CONTROL = 0xF9, PICTURE = 0x2C, PICTURE_HEADER = 10 };
    size_t at = GIF_HEADER + gif_table(f->data[10]), bytes;
    while (at + PICTURE_HEADER < f->size && f->data[at] == EXTENSION) {
        if (f->data[at + 1] == CONTROL && f->data[at + 2] != 4) return "damaged GIF: its control block is not 4 bytes";
        at += 2;
        if (!skip_blocks(f, &at, &bytes)) return ENDS;
    }
    if (at + PICTURE_HEADER >= f->size) return ENDS;
    if (f->data[at] != PICTURE) return "damaged GIF: no picture follows its header";
    f->pixels = at;
    const size_t area = (size_t)le(f, at + 5, 2) * le(f, at + 7, 2);
    at += PICTURE_HEADER + gif_table(f->data[at + 9]) + 1; /* 1: the size of a code */
    if (at >= f->size || !skip_blocks(f, &at, &bytes)) return ENDS;
    return bytes > 2 * area + 1024 ? "damaged GIF: more data than its picture has pixels" : NULL;
}

/* ---- PNM ---- */

static bool is_blank(uint8_t c) { return memchr(" \t\n\v\f\r", c, 6) != NULL; }

static bool is_pnm(const input *f)
{
    return f->size >= 3 && f->data[0] == 'P' && f->data[1] >= '1' && f->data[1] <= '6' &&
           (is_blank(f->data[2]) || f->data[2] == '#');
}

/* Behind blanks and comments, at most 999999; 0: none. f->pixels moves behind it. */
static size_t pnm_number(input *f)
{
    size_t  v = 0, at = f->pixels;
    bool    comment = false;
    uint8_t c;
    for (; at < f->size && (comment || is_blank(f->data[at]) || f->data[at] == '#'); at++) {
        c = f->data[at];
        comment = (comment || c == '#') && c != '\n' && c != '\r';
    }
    for (; at < f->size && (c = f->data[at]) >= '0' && c <= '9'; at++) v = v > 99999 ? 999999 : 10 * v + (c - '0');
    f->pixels = at;
    return v;
}

static const char *open_pnm(input *f)
{
    if (f->data[1] < '5') return "a PNM other than P5 and P6 is not read";
    f->pixels = 2;
    f->width = pnm_number(f);
    f->height = pnm_number(f);
    f->most = pnm_number(f);
    if (f->pixels >= f->size) return ENDS;
    if (!f->most || f->most > 65535 || !is_blank(f->data[f->pixels++]))
        return "damaged PNM: its header is not three numbers";
    f->row = f->last_row = f->width * (f->data[1] == '6' ? 3 : 1) * (f->most > 255 ? 2 : 1);
    return NULL;
}

static sg_status load_pnm(const input *f, const char *name, uint8_t **rgba, sg_error *e)
{
    const bool   grey = f->data[1] == '5';
    const int    bytes = f->most > 255 ? 2 : 1;
    const size_t count = f->width * f->height;
    if (!(*rgba = malloc(4 * count))) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    for (size_t i = 0; i < 4 * count; i++) {
        const size_t sample = grey ? i / 4 : i / 4 * 3 + i % 4;
        const size_t v =
            i % 4 == 3 ? f->most : sg_image_number(f->data + f->pixels + sample * (size_t)bytes, bytes, true);
        if (v > f->most) return sg_error_set(e, SG_E_FORMAT, "damaged %s: a sample is above its largest value", name);
        (*rgba)[i] = (uint8_t)((v * 255 + f->most / 2) / f->most);
    }
    return SG_OK;
}

/* ---- TGA ---- */

enum { TGA_HEADER = 18, TGA_PACKED = 8, TGA_INDEXED = 1, TGA_RGB, TGA_GREY };

static bool is_tga(const input *f)
{
    if (f->size < TGA_HEADER) return false;
    const uint8_t *const d = f->data;
    const int            kind = d[2] & ~TGA_PACKED, bits = d[16], depth = d[7];
    const size_t         first = le(f, 3, 2), colours = le(f, 5, 2);
    if (kind < TGA_INDEXED || kind > TGA_GREY || d[1] != (kind == TGA_INDEXED) || (d[17] & 0xC0) || (d[17] & 15) > 8 ||
        !le(f, 12, 2) || !le(f, 14, 2))
        return false;
    if (kind == TGA_INDEXED)
        return bits == 8 && !first && colours && colours <= 256 &&
               (depth == 15 || depth == 16 || depth == 24 || depth == 32);
    if (first || colours || depth) return false;
    return kind == TGA_GREY ? bits == 8 || bits == 16 : bits == 15 || bits == 16 || bits == 24 || bits == 32;
}

static const char *open_tga(input *f)
{
    enum { FROM_RIGHT = 0x10, ALPHA = 15 };
    const uint8_t *const d = f->data;
    if (d[17] & FROM_RIGHT) return "a TGA whose rows go from right to left is not read";
    f->width = le(f, 12, 2);
    f->height = le(f, 14, 2);
    f->pixels = TGA_HEADER + (size_t)d[0] + (size_t)le(f, 5, 2) * ((d[7] + 7u) / 8);
    f->opaque = !(d[17] & ALPHA);
    if (!(d[2] & TGA_PACKED)) f->row = f->last_row = f->width * ((d[16] + 7u) / 8);
    return NULL;
}

static const char *check_tga(input *f)
{
    const size_t bytes = (f->data[16] + 7u) / 8, count = f->width * f->height, colours = le(f, 5, 2);
    size_t       at = f->pixels, done = 0;
    while (done < count && at < f->size) {
        const uint8_t head = f->row ? 0 : f->data[at++];
        const size_t  n = f->row ? count : 1 + (head & 127u), stored = head & 128 ? 1 : n;
        for (size_t i = at; colours && i < at + stored && i < f->size; i++)
            if (f->data[i] >= colours) return "damaged TGA: a pixel has a colour that is not in the palette";
        at += stored * bytes;
        done += n;
    }
    if (done < count || at > f->size) return ENDS;
    return done > count ? "damaged TGA: more pixels than it has room for" : NULL;
}

/* ---- all ---- */

#if SG_STB_IMAGE
static sg_status load_stb(const input *f, const char *name, uint8_t **rgba, sg_error *e)
{
    int width = 0, height = 0, channels;
    *rgba = stbi_load_from_memory(f->data, (int)f->size, &width, &height, &channels, 4);
    const char *const said = *rgba ? NULL : stbi_failure_reason(), *const why = said ? said : "";
    if (strcmp(why, "outofmem") == 0) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    if (!*rgba) return sg_error_set(e, SG_E_FORMAT, "damaged %s%s%s", name, *why ? ": " : "", why);
    if (width != (int)f->width || height != (int)f->height)
        return sg_error_set(e, SG_E_FORMAT, "a %s of a kind that is not read", name);
    for (size_t i = 0; f->opaque && i < f->width * f->height; i++) (*rgba)[4 * i + 3] = 255;
    return SG_OK;
}
#else
static sg_status load_stb(const input *f, const char *name, uint8_t **rgba, sg_error *e)
{
    (void)f, (void)rgba;
    return sg_error_set(e, SG_E_FORMAT, "is a %s; this build has no stb_image to read it", name);
}
#endif

/* What the first picture leaves free is transparent, as in browsers; stb_image fills it. */
static sg_status load_gif(const input *f, const char *name, uint8_t **rgba, sg_error *e)
{
    const size_t left = le(f, f->pixels + 1, 2), top = le(f, f->pixels + 3, 2);
    const size_t right = left + le(f, f->pixels + 5, 2), bottom = top + le(f, f->pixels + 7, 2);
    SG_TRY(load_stb(f, name, rgba, e));
    for (size_t y = 0, i = 0; y < f->height; y++)
        for (size_t x = 0; x < f->width; x++, i += 4)
            if (x < left || x >= right || y < top || y >= bottom) memset(*rgba + i, 0, 4);
    return SG_OK;
}

/* open finds sizes, and check looks at the rest, which is in the file. They return what is wrong, or NULL. TGA, which
 * has no magic number, is the last. */
static const struct format {
    const char *name;
    bool (*is)(const input *f);
    const char *(*open)(input *f);
    const char *(*check)(input *f);
    sg_status (*load)(const input *f, const char *name, uint8_t **rgba, sg_error *e);
} formats[] = {
    {"BMP", is_bmp, open_bmp, check_bmp, load_stb},
    {"GIF", is_gif, open_gif, check_gif, load_gif},
    {"PNM", is_pnm, open_pnm, NULL, load_pnm},
    {"TGA", is_tga, open_tga, check_tga, load_stb},
};

static const struct format *format_of(const input *f)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].is(f)) return &formats[i];
    return NULL;
}

bool sg_image_is_stb(const sg_map *file) { return format_of(&(input){.data = file->data, .size = file->size}) != NULL; }

/* Compressed, at most so many pixels share a byte: of GIF, whose codes stand for up to 4096; of TGA 64. */
enum { PIXELS_PER_BYTE = 4096 };

sg_status sg_image_stb(sg_image *out, uint8_t **rgba, const sg_map *file, sg_error *e)
{
    input                      f = {.data = file->data, .size = file->size};
    const struct format *const by = format_of(&f);
    const char                *wrong = by->open(&f);
    if (wrong) return sg_error_set(e, SG_E_FORMAT, "%s", wrong);
    if (f.height && f.height <= SG_IMAGE_MAX_SIDE && f.width <= SG_IMAGE_MAX_SIDE &&
        f.size < (f.row ? f.pixels + f.row * (f.height - 1) + f.last_row : f.width * f.height / PIXELS_PER_BYTE))
        return sg_error_set(e, SG_E_FORMAT, "is %zu bytes, too few for %zux%zu pixels", f.size, f.width, f.height);
    SG_TRY(sg_image_alloc(out, f.width, f.height, e));
    wrong = by->check ? by->check(&f) : NULL;
    return wrong ? sg_error_set(e, SG_E_FORMAT, "%s", wrong) : by->load(&f, by->name, rgba, e);
}
