# Everything a program may do that moves control in unusual ways, with output that depends on nothing but this text.
import decimal, hashlib, itertools, json, queue, random, re, subprocess, sys, threading, zlib, struct, collections, heapq

rng = random.Random(4711)

def exceptions(n):
    caught = 0
    def deep(k):
        try:
            if k == 0:
                raise KeyError(k)
            return deep(k - 1)
        finally:
            nonlocal caught
            caught += 1
    for i in range(n):
        try:
            deep(i % 40)
        except KeyError:
            caught += 1
        try:
            json.loads("{" * (i % 7))
        except ValueError:
            caught += 1
    return caught

def generators(n):
    def primes():
        known = []
        for k in itertools.count(2):
            if all(k % p for p in itertools.takewhile(lambda p: p * p <= k, known)):
                known.append(k)
                yield k
    return sum(itertools.islice(primes(), n))

def threads(n):
    work, done = queue.Queue(), queue.Queue()
    def worker():
        while (item := work.get()) is not None:
            done.put((item, hashlib.sha256(str(item).encode() * 500).hexdigest()))
    pool = [threading.Thread(target=worker) for _ in range(4)]
    for t in pool: t.start()
    for i in range(n): work.put(i)
    for _ in pool: work.put(None)
    for t in pool: t.join()
    return hashlib.md5(repr(sorted(done.queue)).encode()).hexdigest()

def documents(n):
    docs = [{"id": i, "name": "x" * (i % 17), "values": [rng.random() for _ in range(20)]} for i in range(n)]
    text = json.dumps(docs, sort_keys=True, indent=1)
    back = json.loads(text)
    assert back == docs
    back.sort(key=lambda d: (len(d["name"]), d["values"][3]))
    return hashlib.sha1(json.dumps(back).encode()).hexdigest()

def expressions(n):
    text = " ".join("%s@%s.org" % (rng.choice("abcdef") * 3, rng.randrange(1000)) for _ in range(n))
    found = re.findall(r"(\w+)@(\d+)\.(?:org|com)", text)
    return collections.Counter(name for name, _ in found).most_common(3), re.sub(r"\d+", lambda m: str(int(m[0]) * 2), text)[-40:]

def decimals(n):
    decimal.getcontext().prec = 60
    x = decimal.Decimal(2)
    for _ in range(n):
        x = (x + 3 / x).sqrt()
    return x

def processes(n):
    out = []
    for i in range(n):
        done = subprocess.run(["/bin/sh", "-c", "echo $((%d * 7)); exit %d" % (i, i % 5)], capture_output=True)
        out.append((done.stdout.decode().strip(), done.returncode))
    return out

def bytes_(n):
    data = bytes(rng.randrange(64) for _ in range(n))
    packed = zlib.compress(data, 9)
    assert zlib.decompress(packed) == data
    return len(packed), zlib.crc32(data), hashlib.blake2b(data).hexdigest()[:16], sum(struct.unpack("<%dI" % (n // 4), data))

def heap(n):
    h = []
    for _ in range(n): heapq.heappush(h, rng.random())
    return "%.9f" % sum(heapq.heappop(h) for _ in range(n // 2))

for turn in range(3):
    for job in (lambda: exceptions(3000), lambda: generators(6000), lambda: threads(600), lambda: documents(2500),
                lambda: expressions(30000), lambda: decimals(3000), lambda: processes(12), lambda: bytes_(200000),
                lambda: heap(40000)):
        print(turn, job())
        sys.stdout.flush()
