gdb -nx -batch -ex 'set width 0' -ex 'info functions Py' -ex 'disassemble PyObject_Call' -ex 'info line PyErr_Format' \
  -ex 'python print(sum(i * i for i in range(1500000)))' -ex 'python print(sorted(str(i) for i in range(200000))[-3:])' \
  -ex 'print sizeof(long) * 7' -ex 'info scope PyLong_FromLong' /usr/bin/python3.11 > out 2>&1
code=$?
gdb -nx -batch -ex 'info functions ^ba' -ex 'disassemble main' -ex 'info files' /bin/bash >> out 2>&1 || code=1
wc -l < out; sha256sum < out; tail -5 out
exit $code
