const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'), { execFileSync } = require('child_process');
function mix(n) { let a = 1; for (let i = 0; i < n; i++) a = (Math.imul(a, 1664525) + 1013904223) >>> 0; return a; }
class Shape { area() { return 0; } } class Square extends Shape { constructor(s) { super(); this.s = s; } area() { return this.s ** 2; } }
function jit() { let sum = 0; const list = []; for (let i = 0; i < 3000; i++) list.push(i % 3 ? new Square(i) : new Shape());
  for (let k = 0; k < 600; k++) for (const shape of list) sum += shape.area() % 7; return sum; }
function failures(n) { let caught = 0; for (let i = 0; i < n; i++) { try { if (i % 2) null.x; JSON.parse('{'.repeat(i % 5)); } catch (e) { caught += e.message.length > 0; } } return caught; }
if (!isMainThread) { parentPort.postMessage([workerData, mix(20000000), crypto.createHash('sha512').update('x'.repeat(workerData * 1000)).digest('hex')]); }
else (async () => {
  for (let turn = 0; turn < 3; turn++) {
    console.log(mix(60000000), jit(), failures(40000));
    const got = await Promise.all([1, 2, 3].map(n => new Promise((ok, bad) => { const w = new Worker(__filename, { workerData: n }); w.on('message', ok); w.on('error', bad); })));
    console.log(JSON.stringify(got));
    const data = Buffer.from(Array.from({ length: 400000 }, (_, i) => (i * i) % 251));
    const packed = zlib.deflateSync(data, { level: 9 }); console.log(packed.length, zlib.inflateSync(packed).equals(data));
    console.log('abc1def22'.repeat(20000).replace(/(\d+)/g, (m) => m * 2).length, [...Array(100000).keys()].map(x => (x * 7919) % 100003).sort((a, b) => a - b)[500]);
    console.log(execFileSync('/bin/echo', ['child', String(turn)]).toString().trim());
    function* g() { for (let i = 0; i < 300000; i++) yield i; } let s = 0; for (const v of g()) s += v; console.log(s);
    console.log(eval('(' + 'x=>x+1'.toString() + ')')(41), new Function('a', 'return a.map(x => x*2n)')([3n]).toString());
  }
})();
