set -e
for level in -O1 -O2; do gcc $level -g -S big.c -o big.s; sha256sum < big.s; done
g++ -std=c++17 -O1 -S templates.cc -o templates.s && sha256sum < templates.s
