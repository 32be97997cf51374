"""Two ranks talk by objects, whose lengths only pickle knows, by buffers, and at last by four threads at once."""

import array
import threading
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size
numbers, others = array.array("d", [rank] * 100), array.array("d", [0] * 100)
for step in range(100):
    comm.allreduce(step)
    comm.Allreduce(numbers, others)
    comm.Sendrecv(numbers, right, recvbuf=others, source=left)
    request = comm.isend("x" * step, right)
    comm.recv(source=left)
    request.wait()
    everyone = comm.gather(step)
    comm.bcast(everyone)
    comm.scatter([{"step": step}] * size if rank == 0 else None)
    comm.alltoall([step] * size)
    comm.allgather((step, rank))
    if step % 50 == 0:
        comm.Barrier()


def talk(own, tag):
    """Exchanges buffers with the next rank, for seconds: the way up from mpi4py is learned meanwhile."""
    mine = array.array("d", [tag] * 50)
    for _ in range(100):
        own.Sendrecv_replace(mine, right, sendtag=tag, source=left, recvtag=tag)
        time.sleep(0.03)


assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
threads = [threading.Thread(target=talk, args=(comm.Dup(), tag)) for tag in range(3)]
for thread in threads:
    thread.start()
talk(comm, 3)
for thread in threads:
    thread.join()
total = comm.allreduce(1)
if rank == 0:
    print(total, "OK")
