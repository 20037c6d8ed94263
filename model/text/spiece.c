/* spiece.c - see spiece.h. */
#include "spiece.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNIGRAM = 1 };
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* A protobuf message that is being read: the rest of its bytes. */
typedef struct message {
    const unsigned char *at, *end;
} message;

typedef struct field {
    uint32_t number;
    int      wire;
    uint64_t value; /* VARINT, FIXED32 */
    message  bytes; /* BYTES */
} field;

static bool read_varint(message *m, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 70 && m->at < m->end; shift += 7) {
        const unsigned char b = *m->at++;
        if (shift == 63 && b > 1) return false;
        *value |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) return true;
    }
    return false;
}

/* The next field of m; false when the framing is broken. m must not be at its end. */
static bool read_field(message *m, field *f)
{
    uint64_t tag, size = 0;
    if (!read_varint(m, &tag) || tag >> 3 == 0 || tag >> 32) return false;
    *f = (field){.number = (uint32_t)(tag >> 3), .wire = (int)(tag & 7)};
    switch (f->wire) {
    case VARINT: return read_varint(m, &f->value);
    case FIXED64: size = 8; break;
    case FIXED32: size = 4; break;
    case BYTES:
        if (!read_varint(m, &size)) return false;
        break;
    default: return false;
    }
    if (size > (uint64_t)(m->end - m->at)) return false;
    f->bytes = (message){m->at, m->at + size};
    for (int i = 0; f->wire == FIXED32 && i < 4; i++) f->value |= (uint64_t)m->at[i] << 8 * i;
    m->at += size;
    return true;
}

static bool read_piece(message m, sg_spiece_piece *p)
{
    *p = (sg_spiece_piece){.type = SG_SPIECE_NORMAL};
    field f;
    while (m.at < m.end) {
        if (!read_field(&m, &f)) return false;
        if (f.number == 1 && f.wire == BYTES) {
            p->text = (const char *)f.bytes.at;
            p->len = (size_t)(f.bytes.end - f.bytes.at);
        } else if (f.number == 2 && f.wire == FIXED32) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&p->score, &bits, sizeof p->score);
        } else if (f.number == 3 && f.wire == VARINT) {
            p->type = f.value > SG_SPIECE_BYTE ? 0 : (sg_spiece_type)f.value;
        } else if (f.number <= 3) {
            return false;
        }
    }
    return true;
}

static const char *piece_fault(const sg_spiece_piece *p)
{
    size_t bad;
    if (!p->len) return "is empty";
    if (p->len > SG_SPIECE_MAX_PIECE) return "is longer than 512 bytes";
    if (!sg_utf8_check(p->text, p->len, &bad)) return "is not UTF-8";
    if (memchr(p->text, 0, p->len)) return "holds a NUL";
    if (!isfinite(p->score)) return "has a score that is not finite";
    return p->type ? NULL : "is of an unknown type";
}

static sg_status add_piece(sg_spiece *m, message bytes, const char *path, sg_error *e)
{
    if (m->count == m->cap) {
        const size_t     cap = m->cap ? 2 * m->cap : 1024;
        sg_spiece_piece *pieces = realloc(m->pieces, cap * sizeof *pieces);
        if (!pieces) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for %zu pieces", path, cap);
        m->pieces = pieces;
        m->cap = cap;
    }
    sg_spiece_piece *p = &m->pieces[m->count];
    const char      *fault = read_piece(bytes, p) ? piece_fault(p) : "is not a SentencePiece message";
    if (fault) return sg_error_set(e, SG_E_FORMAT, "%s: piece %zu %s", path, m->count, fault);
    m->count++;
    return SG_OK;
}

static bool read_trainer(message m, uint64_t *model_type)
{
    field f;
    while (m.at < m.end) {
        if (!read_field(&m, &f)) return false;
        if (f.number == 3 && f.wire != VARINT) return false;
        if (f.number == 3) *model_type = f.value;
    }
    return true;
}

static bool read_normalizer(message m, sg_spiece *out)
{
    field f;
    while (m.at < m.end) {
        if (!read_field(&m, &f)) return false;
        if (f.number == 2 && f.wire != BYTES) return false;
        if (f.number == 2) {
            out->charsmap = (const char *)f.bytes.at;
            out->charsmap_size = (size_t)(f.bytes.end - f.bytes.at);
        }
    }
    return true;
}

static sg_status parse(sg_spiece *m, const char *path, sg_error *e)
{
    const unsigned char *start = (const unsigned char *)m->file.data;
    message              all = {start, start + m->file.len};
    uint64_t             model_type = UNIGRAM;
    while (all.at < all.end) {
        const size_t offset = (size_t)(all.at - start);
        field        f;
        bool         sound = read_field(&all, &f) && (f.number > 3 || f.wire == BYTES);
        if (sound && f.number == 1) SG_TRY(add_piece(m, f.bytes, path, e));
        m->finished = m->finished || f.number > 1;
        if (sound && f.number == 2) sound = read_trainer(f.bytes, &model_type);
        if (sound && f.number == 3) sound = read_normalizer(f.bytes, m);
        if (!sound)
            return sg_error_set(e, SG_E_FORMAT, "%s: not a SentencePiece model: broken at byte %zu", path, offset);
    }
    if (!m->count) return sg_error_set(e, SG_E_FORMAT, "%s: not a SentencePiece model: it has no pieces", path);
    if (model_type != UNIGRAM)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: trainer_spec.model_type is %llu; only Unigram (1) is understood",
                            path, (unsigned long long)model_type);
    return SG_OK;
}

sg_status sg_spiece_open(sg_spiece *m, const char *path, sg_error *e)
{
    sg_status s = sg_textbuf_read(&m->file, path, SG_SPIECE_MAX_BYTES, e);
    if (s == SG_OK) s = parse(m, path, e);
    if (s != SG_OK) sg_spiece_close(m);
    return s;
}

void sg_spiece_close(sg_spiece *m)
{
    free(m->pieces);
    sg_textbuf_free(&m->file);
    *m = (sg_spiece){0};
}
