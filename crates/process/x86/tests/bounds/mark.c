/* Called in every pass. */
int marks;
void mark(int i) { marks += i | 1; }
