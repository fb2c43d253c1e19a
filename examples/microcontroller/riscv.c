/* RISC-V of 32 bits: the entry, and semihosting. */
#include "board.h"

static void call(int operation, const void *argument) {
    register int a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = argument;
    __asm__ volatile(".option push\n .option norvc\n .balign 16\n slli x0, x0, 0x1f\n ebreak\n "
                     "srai x0, x0, 7\n .option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
}

void board_print(const char *text) {
    call(0x04, text);
}

void board_exit(void) {
    for (;;) call(0x18, (const void *)0x20026);
}

__attribute__((used)) static void fault(void) {
    board_print("fault\n");
    board_exit();
}

__attribute__((naked, used, section(".vectors"))) void reset(void) {
    __asm__ volatile("la sp, stack_top\n la t0, trap\n csrw mtvec, t0\n j board_start\n .balign 4\n"
                     "trap: la sp, stack_top\n j fault");
}
