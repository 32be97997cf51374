# On a node: sends zeros to others of its kind, takes theirs, and runs programs, as its input orders. Says the number of each
# order once it is done: of a message once all of it has arrived.
import shlex
import socket
import subprocess
import sys
import threading

listener = socket.socket()
listener.bind(("0.0.0.0", 0))
listener.listen(16)
lock = threading.Lock()
print(listener.getsockname()[1], flush=True)


def say(words):
    with lock:
        print(words, flush=True)


def take(connection):
    stream = connection.makefile("rb")
    left = int(stream.readline())
    while left > 0:
        left -= len(stream.read(min(left, 1 << 18)))
    connection.sendall(b"x")
    connection.close()


def listen():
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=take, args=(connection,), daemon=True).start()


def send(number, count, address, port):
    with socket.create_connection((address, int(port))) as connection:
        connection.sendall(b"%d\n" % int(count))
        connection.sendall(bytes(int(count)))
        connection.recv(1)
    say(number)


def run(number, words):
    ended = subprocess.run(words, stdout=subprocess.DEVNULL)
    say(number if ended.returncode == 0 else "%s ended with %d" % (words, ended.returncode))


threading.Thread(target=listen, daemon=True).start()
for line in sys.stdin:
    number, kind, *words = shlex.split(line)
    work = (send, (number, *words)) if kind == "send" else (run, (number, words))
    threading.Thread(target=work[0], args=work[1], daemon=True).start()
