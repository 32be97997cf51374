# Its own test suite, as Debian packages it; the names of the tests that passed and the verdict, no times, and not what
# threads print when they like.
/usr/bin/python3 -m test -v test_json test_re test_generators test_exceptions test_thread test_contextlib test_heapq \
  test_struct test_threading_local test_bytes test_deque test_dict test_set test_traceback > log 2>&1
code=$?
grep -E '^(test[A-Za-z0-9_]* .*\.\.\. [a-zA-Z]|== Tests result|Tests result|Result:|[0-9]+ tests? OK|All [0-9]+ tests OK)' log |
  sed -E 's/ in [0-9.]+( sec|s)?.*//; s/0x[0-9a-f]+//g; s/(task [0-9]+ will run|waiting for tasks).*//' | sort
exit $code
