#include <stdio.h>

/* The first bytes of a file, as many as there is room for; returns their number, 0 where it cannot be read. */
static size_t read_file(const char *path, void *bytes, size_t room) {
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, room, file) : 0;
    if (file) fclose(file);
    return size;
}
