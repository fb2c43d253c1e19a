/* From the reset to main, on either board. */
#include "board.h"
#include <stdint.h>
#include <string.h>

/* The linker script's. */
extern unsigned char data_begin[], data_end[], data_stored[], bss_begin[], bss_end[];

void board_start(void) {
    memcpy(data_begin, data_stored, (size_t)(data_end - data_begin));
    memset(bss_begin, 0, (size_t)(bss_end - bss_begin));
    main();
    board_exit();
}
