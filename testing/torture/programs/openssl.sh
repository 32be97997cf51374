set -eo pipefail
for i in 1 2 3; do for d in sha256 sha3-512 blake2b512 md5 sm3 ripemd160; do
  openssl dgst -$d input || openssl dgst -sha1 input; done; done
for c in aes-256-ctr camellia-128-cbc chacha20 aria-256-cfb; do
  openssl enc -$c -pbkdf2 -iter 60000 -k secret -S 0102030405060708 -in input -out out.enc; sha256sum < out.enc
  openssl enc -d -$c -pbkdf2 -iter 60000 -k secret -S 0102030405060708 -in out.enc | cmp - input; done
openssl genrsa -out key.pem 2048 2> /dev/null
for i in 1 2 3 4 5; do openssl dgst -sha256 -sign key.pem -out sig input
  openssl dgst -sha256 -verify <(openssl rsa -in key.pem -pubout 2> /dev/null) -signature sig input; done
openssl prime -checks 60 2074722246773485207821695222107608587480996474721117292752992589912196684750549658310084416732550077
