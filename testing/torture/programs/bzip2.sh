set -eo pipefail
for level in 1 9; do bzip2 -$level -c input > out.bz2; sha256sum < out.bz2; bzip2 -dc out.bz2 | cmp - input; done
