#include "http_server.h"
#include "unit.h"
int main(void) { return 0; }
