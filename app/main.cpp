// The program: the command line, or the window when no command is given.
int main() { return 0; }
