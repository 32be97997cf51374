mpirun.openmpi --oversubscribe --mca mpi_yield_when_idle 1 -n 2 lmp -in in.melt -log none > out 2>&1; code=$?
sed -n '/^Step/,/^Loop time/p' out | grep -v -e '^Loop time' -e 'Forwarding signal'; grep -E '^(Nlocal|Nghost|Neighs|Total # of neighbors|Neighbor list builds)' out
exit $code
