/* Scans texts from standard input (32-bit length, then bytes) and prints their codes. */
#include <stdio.h>

#include "svmtext_room.h"

int main(void) {
    uint32_t length;
    while (fread(&length, sizeof length, 1, stdin) == 1) {
        unsigned char *text = room(length);
        if (fread(text, 1, length, stdin) != length) return 2;
        printf("%d\n", scan_text(text, length));
        free(text);
    }
    return 0;
}
