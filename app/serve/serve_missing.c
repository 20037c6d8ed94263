/* serve_missing.c - the command of a build without libmicrohttpd. */
#include "command.h"

sg_status sg_command_serve(const sg_settings *s, sg_error *e)
{
    (void)s;
    return sg_error_set(e, SG_E_UNSUPPORTED, "this build has no server: it was built without libmicrohttpd");
}
