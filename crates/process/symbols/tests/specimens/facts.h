/* An inlined function in a header: its code appears in several functions. */
static inline int twice(int value) {
    int doubled = value * 2; /* header line */
    return doubled;
}
