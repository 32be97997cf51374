set -eo pipefail
for level in 1 6 9 9; do gzip -n -$level -c input > out.gz; sha256sum < out.gz; gzip -dc out.gz | cmp - input; done
for i in 1 2 3 4 5 6; do gzip -dc out.gz | sha256sum; done
