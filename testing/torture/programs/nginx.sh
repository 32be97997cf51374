# A server of two workers under load by three clients, reloaded meanwhile; what the clients got is checked.
set -e
mkdir -p www temp; for i in $(seq 40); do head -c $((i * 1997)) input > www/f$i.txt; done
echo '<!--#include virtual="/f2.txt" --><!--#echo var="request_uri" -->' > www/page.html
# Paths of sockets are taken as they are.
cd "$PWD"; /usr/sbin/nginx -p "$PWD" -c "$PWD/nginx.conf" -e error.log & server=$!
for i in $(seq 600); do [ -S front.sock ] && [ -S back.sock ] && break; sleep 0.05; done
get() { curl -s --unix-socket front.sock "$@"; }
client() {
  for round in $(seq 5); do
    get --compressed 'http://x/f[1-40].txt'; get 'http://x/back/f[1-40].txt'; get -r 100-2000 'http://x/f[9-19].txt'
    get 'http://x/say/word/[1-60]?a=b'; get -L 'http://x/moved'; get 'http://x/page.html'
    get -o /dev/null -w '%{http_code}\n' 'http://x/none[1-20]'
  done | sha256sum > got$1
}
client 1 & one=$!; client 2 & two=$!; client 3 & three=$!
for i in 1 2 3 4; do sleep 0.4; kill -HUP $server; done
wait $one $two $three; cat got1 got2 got3
kill -QUIT $server; wait $server
