/* What score.c needs of a board: a debugger, here QEMU, that prints texts and ends the program. arm.c and riscv.c. */
#ifndef BOARD_H
#define BOARD_H

void board_print(const char *text);
void board_exit(void);
void board_start(void); /* from the reset: memory is made ready, and main called */
int main(void);

#endif
