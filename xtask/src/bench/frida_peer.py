"""Counts or times calls of one function of a running process with Frida and C callbacks, until told to stop.

    frida_peer.py PID ADDRESS count|time

Prints "inserted" when the callbacks are in place, waits for an interrupt, takes them out and prints "removed N", where N
is the number of calls seen. What a CModule writes to must be memory from outside it. Next: contender.rs, which starts it
beside trimtab.
"""

import json
import signal
import sys

import frida

CALLBACKS = {
    "count": """
        #include <gum/guminterceptor.h>
        extern volatile guint64 calls[2];
        void onEnter (GumInvocationContext * ic) { calls[0]++; }
    """,
    "time": """
        #include <gum/guminterceptor.h>
        extern volatile guint64 calls[2];
        typedef struct { guint64 entered; } Call;
        static guint64 now (void) {
          unsigned int low, high;
          __asm__ volatile ("rdtsc" : "=a" (low), "=d" (high));
          return ((guint64) high << 32) | low;
        }
        void onEnter (GumInvocationContext * ic) {
          Call * call = GUM_IC_GET_INVOCATION_DATA (ic, Call);
          call->entered = now ();
        }
        void onLeave (GumInvocationContext * ic) {
          Call * call = GUM_IC_GET_INVOCATION_DATA (ic, Call);
          calls[1] += now () - call->entered;
          calls[0]++;
        }
    """,
}
SCRIPT = """
const calls = Memory.alloc(16);
const callbacks = new CModule(%s, { calls });
Interceptor.attach(ptr(%s), callbacks);
Interceptor.flush();
rpc.exports = { calls() { return calls.readU64().toString(); } };
"""


def main():
    pid, address, what = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    session = frida.attach(pid)
    script = session.create_script(SCRIPT % (json.dumps(CALLBACKS[what]), json.dumps(address)))
    script.on("message", lambda message, data: print(message, flush=True))
    script.load()
    print("inserted", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    calls = script.exports_sync.calls()
    script.unload()
    session.detach()
    print("removed", calls, flush=True)


main()
