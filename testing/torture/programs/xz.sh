set -eo pipefail
xz -6 -T1 -c input > one.xz; sha256sum < one.xz; xz -dc one.xz | cmp - input
xz -2 -T2 --block-size=1MiB -c input > two.xz; sha256sum < two.xz; xz -T2 -dc two.xz | sha256sum
