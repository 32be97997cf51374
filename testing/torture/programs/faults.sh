set -e
g++ -std=c++17 -O2 -fnon-call-exceptions -pthread faults.cc -o faults
exec ./faults
